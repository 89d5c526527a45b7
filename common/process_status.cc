#include "common/process_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

// The kernel writes the file at once, so that one read() is enough. It fails with ESRCH when the
// process has ended since the file was opened, which makes a stream's iterators throw.
std::string ReadStat(pid_t pid) {
  char text[1024];
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return "";
  ssize_t got = 0;
  do {
    got = read(file.get(), text, sizeof(text));
  } while (got < 0 && errno == EINTR);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
}

}  // namespace

std::optional<ProcessStatus> ReadProcessStatus(pid_t pid) {
  const std::string text = ReadStat(pid);
  // The name, in brackets, may have brackets itself.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStatus status;
  status.name = text.substr(open + 1, close - open - 1);
  // Fields 3 and 4, 20 and 22.
  if (std::sscanf(
          text.c_str() + close + 1,
          " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d %*s %" SCNu64,
          &status.state, &status.parent, &status.threads, &status.started) != 4) {
    return std::nullopt;
  }
  return status;
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->path().filename().string(), &pid)) all.push_back(pid);
  }
  return all;
}

}  // namespace warpline
