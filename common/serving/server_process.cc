#include "common/serving/server_process.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/ignored_signal.h"
#include "common/log/log.h"
#include "common/program_start.h"
#include "common/undumpable.h"
#include "common/version.h"

namespace warpline {
namespace {

const char* program_name = "warpline";

}  // namespace

int RunServerProgram(const ServerProgram& program, int argc, char** argv, int (*run)()) {
  StartProgram();
  MakeUndumpable();
  program_name = program.name;
  SetLogName(program.log_name);
  absl::SetProgramUsageMessage(program.usage);
  absl::FlagsUsageConfig config;
  config.version_string = [name = program.name] { return absl::StrCat(name, " ", kVersion, "\n"); };
  config.contains_help_flags = [main_file = program.main_file](absl::string_view file) {
    return absl::EndsWith(file, main_file) || absl::EndsWith(file, "_flags.cc");
  };
  config.contains_helpshort_flags = config.contains_help_flags;
  absl::SetFlagsUsageConfig(config);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    return Complain(absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", rest[1], "\"; see --help")));
  }
  return run();
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", program_name, std::string(status.message()).c_str());
  return 2;
}

EndSignals::EndSignals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGTERM);
  if (!IsIgnoredSignal(SIGINT)) sigaddset(&set_, SIGINT);
  sigprocmask(SIG_BLOCK, &set_, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is an error of its write.
}

void EndSignals::Wait() const {
  int number;
  while (sigwait(&set_, &number) != 0) {
  }
}

bool EndSignals::WaitFor(absl::Duration timeout) const {
  const timespec pause = absl::ToTimespec(timeout);
  return sigtimedwait(&set_, nullptr, &pause) >= 0;
}

size_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1u << 20));
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace warpline
