// A worker that is taken over: warpline-worker, which makes the attempts of the escape suite once
// its session is open. In its folder it finds, when it starts,
//
//   targets     what there is to be reached (escape.h)
//   attempts    the names of those to be made, one a line, or "all"
//   accomplice  the path of a unix socket that is handed every descriptor (accomplice.h)
//   layers_off  the names of the layers that its jail lacks, one a line
//   results     where it writes "NAME OUTCOME DETAIL", a line for each, and "end"
//
// Without attempts it is a worker as any other. By hand, --list prints the attempts with what stops
// them, and --try NAME makes one.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/sibling_program.h"
#include "server/jail/layers.h"
#include "server/jail/layers_off.h"
#include "server/worker/host/control_socket.h"
#include "server/worker/host/host_process.h"
#include "server/worker/host/output_capture.h"
#include "tests/attack/accomplice.h"
#include "tests/attack/escape.h"

namespace warpline::attack {
namespace {

constexpr int kControlFd = 3;

// Calls visit(attempt) for all of them.
template <typename Visit>
void ForEachAttempt(Visit visit) {
  for (const auto family :
       {ProcessAttempts(), FileAttempts(), SocketAttempts(), KernelAttempts()}) {
    for (const Attempt& attempt : family) visit(attempt);
  }
}

std::set<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

Targets ReadTargets(const std::string& path) {
  std::map<std::string, std::string> values;
  std::ifstream file(path);
  for (std::string name, value; file >> name >> value;) values[name] = value;
  const auto number = [&values](const char* name) {
    int value = 0;
    return absl::SimpleAtoi(values[name], &value) ? value : 0;
  };
  Targets targets;
  targets.server = number("server");
  targets.supervisor = number("supervisor");
  targets.keeper = number("keeper");
  targets.neighbour = number("neighbour");
  targets.secret = values["secret"];
  targets.folder = values["folder"];
  targets.public_folder = values["public_folder"];
  targets.unix_socket = values["unix_socket"];
  targets.abstract_socket = values["abstract_socket"];
  targets.tcp_port = number("tcp_port");
  targets.udp_port = number("udp_port");
  targets.ipc_key = number("ipc_key");
  return targets;
}

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kStopped:
      return "stopped";
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kNotHere:
      return "not_here";
  }
  return "";
}

// What one worker has to do, read while its jail is open.
class Assignment {
 public:
  explicit Assignment(const std::string& folder)
      : targets_(ReadTargets(folder + "/targets")),
        attempts_(Lines(folder + "/attempts")),
        results_(open((folder + "/results").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)) {
    jail::LayerSet off;
    for (const std::string& name : Lines(folder + "/layers_off")) {
      if (const auto layer = jail::LayerNamed(name)) off = off | *layer;
    }
    jail::TurnOffForTest(off);
    for (const std::string& path : Lines(folder + "/accomplice")) MeetAccomplice(path);
  }

  void CarryOut() const {
    // A neighbour's worker may have read the attempts that are to be made on it.
    if (attempts_.empty() || targets_.neighbour == getpid()) return;
    ForEachAttempt([this](const Attempt& attempt) {
      if (!attempts_.contains("all") && !attempts_.contains(attempt.name)) return;
      const Result result = attempt.run(targets_);
      Say(absl::StrCat(attempt.name, " ", NameOf(result.outcome), " ", result.detail, "\n"));
    });
    Say("end\n");
  }

 private:
  void Say(const std::string& line) const {
    [[maybe_unused]] const ssize_t n = write(results_, line.data(), line.size());
  }

  const Targets targets_;
  const std::set<std::string> attempts_;
  const int results_;
};

// The attempts with their stoppers, for attack.py.
int List() {
  ForEachAttempt([](const Attempt& attempt) {
    std::string stoppers;
    for (const jail::LayerSpec& spec : jail::AllLayers()) {
      if (!attempt.stoppers.Has(spec.layer)) continue;
      absl::StrAppend(&stoppers, stoppers.empty() ? "" : ",", spec.name);
    }
    std::printf("%s %s\n", attempt.name, stoppers.c_str());
  });
  return 0;
}

// Makes one attempt without any jail. Exit status 0 when it got through.
int Try(const std::string& folder, const std::string& name) {
  const Targets targets = ReadTargets(folder + "/targets");
  int status = 2;
  ForEachAttempt([&](const Attempt& attempt) {
    if (name != attempt.name) return;
    status = attempt.run(targets).outcome == Outcome::kSucceeded ? 0 : 1;
  });
  return status;
}

int Run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") return List();
  const auto folder = OwnFolder();
  if (!folder.ok()) return 1;
  if (argc == 3 && std::string(argv[1]) == "--try") return Try(*folder, argv[2]);
  SetLogName("worker");
  const Assignment assignment(*folder);
  auto output = worker::OutputCapture::Install();
  if (!output.ok()) return 1;
  worker::HostProcess::Options options;
  options.control_fd = kControlFd;
  options.output = output->release();
  options.on_opened = [&assignment] { assignment.CarryOut(); };
  options.on_ended = [](uint64_t session, const absl::Status& why) {
    worker::SendSessionEnded(kControlFd, session, why);
  };
  auto* const process = new worker::HostProcess(std::move(options));
  worker::ServeControlSocket(kControlFd, process);
  _exit(0);
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) { return warpline::attack::Run(argc, argv); }
