// A stand-in for nvidia-cuda-mps-control (fake_mps_control.py) in a folder of a test's own.
#ifndef WARPLINE_SERVER_MPS_TESTING_FAKE_CONTROL_H_
#define WARPLINE_SERVER_MPS_TESTING_FAKE_CONTROL_H_

#include <sys/types.h>

#include <string>

namespace warpline::mps {

// Where nobody's files lie that a test does not remove, by a path that is short enough for sockets.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // The names of what is in it, with spaces between.
  std::string List() const;

 private:
  std::string path_;
};

// Installs the program in `folder`, and returns its path. `how` is how it fails, as the program
// says; "control" for not at all.
std::string InstallFakeControl(const std::string& folder, const std::string& how = "control");
// The daemon whose pipes and sockets are in `pipes`; 0 for none.
pid_t DaemonOf(const std::string& pipes);
// Whether the process is there, and no zombie.
bool IsRunning(pid_t process);
// Runs the program as a client, for one command. Returns the first number of the answer; 0 for
// none.
int AskFakeControl(const std::string& program, const std::string& pipes,
                   const std::string& command);

}  // namespace warpline::mps

#endif  // WARPLINE_SERVER_MPS_TESTING_FAKE_CONTROL_H_
