#include "server/mps/testing/fake_control.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/process_status.h"

namespace warpline::mps {

TestFolder::TestFolder() : path_("/tmp/mps-test-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) abort();
  // For users of jails, who pass through it.
  std::filesystem::permissions(path_, std::filesystem::perms(0755));
}

TestFolder::~TestFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TestFolder::List() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, " ");
}

std::string InstallFakeControl(const std::string& folder, const std::string& how) {
  const std::string program = absl::StrCat(folder, "/fake-mps-", how);
  // A copy: jails give the folder of the program, and not what its links lead to.
  std::filesystem::copy_file(
      absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/server/mps/testing/fake_mps_control.py"),
      program);
  std::filesystem::permissions(program, std::filesystem::perms(0755));
  return program;
}

pid_t DaemonOf(const std::string& pipes) {
  std::ifstream file(pipes + "/nvidia-cuda-mps-control.pid");
  pid_t pid = 0;
  file >> pid;
  return pid;
}

bool IsRunning(pid_t process) {
  const auto status = ReadProcessStatus(process);
  return status.has_value() && status->state != 'Z';
}

int AskFakeControl(const std::string& program, const std::string& pipes,
                   const std::string& command) {
  FILE* const output = popen(
      absl::StrCat("echo ", command, " | CUDA_MPS_PIPE_DIRECTORY=", pipes, " ", program).c_str(),
      "r");
  if (output == nullptr) return 0;
  int number = 0;
  if (fscanf(output, "%d", &number) != 1) number = 0;
  pclose(output);
  return number;
}

}  // namespace warpline::mps
