// The parent of a server that can be replaced by another version of its program while sessions go
// on.
//
// It starts the server, and keeps for the next one what the server passes on: descriptors, whose
// meaning it does not know. If the next one does not start, it starts the former one again with the
// same things. It has one thread, opens nothing and is small, so there is little in it to be
// upgraded.
//
//   parent                              the server, then the next one
//     | <------- ask (or SIGHUP) ---------- |
//     |  runs the next one with --check_config
//     | ------------- pass_on ------------> |   its sessions come to rest
//     | <------ keep ..., passed_on ------- |
//     | ------------- kept_all -----------> |   it ends
//     |  starts the next one
//     | --------- kept ..., start ------------------> |   it takes them over
//     | <----------------- ready -------------------- |
//     | --------------- committed ------------------> |   clients are let in
#ifndef WARPLINE_SERVER_GPU_SERVER_UPGRADE_SERVER_PARENT_H_
#define WARPLINE_SERVER_GPU_SERVER_UPGRADE_SERVER_PARENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "proto/upgrade.pb.h"
#include "server/hostlink/process/child_process.h"

namespace warpline::server {

struct ServerParentOptions {
  std::string program;  // Absolute.
  std::vector<std::string> args;
  // For the check of a program; for a server to end that has passed on everything, and for one to
  // take it over.
  absl::Duration check_limit = absl::Seconds(30);
  absl::Duration trial_limit = absl::Seconds(60);
  // The former server is started so often again, with pauses that double.
  int most_rollbacks = 8;
  absl::Duration first_pause = absl::Seconds(1);
};

// The environment variable that tells a server of its parent.
inline constexpr char kServerParentVariable[] = "WARPLINE_SERVER_PARENT";

// Used by one thread, the process's first.
class ServerParent {
 public:
  explicit ServerParent(ServerParentOptions options);
  ~ServerParent();
  ServerParent(const ServerParent&) = delete;
  ServerParent& operator=(const ServerParent&) = delete;

  // Serves until the server ends otherwise than for another one, and returns the exit code for this
  // process, which is the server's. SIGTERM and SIGINT are passed on to the server, after an
  // upgrade that is under way; SIGHUP upgrades it to the program that now has its path. Blocks
  // them.
  int Run();

 private:
  enum class Phase {
    kStarting,  // The first server.
    kServing,
    kChecking,   // It serves, and the next one's program is checked.
    kPassingOn,  // It was told to pass on what it has.
    kTrial,      // The next one starts.
    kRollback,   // The former one starts again.
    kPausing,    // It did not, and is started again later.
  };
  struct Program {
    std::unique_ptr<ChildProcess> process;
    UniqueFd socket;
    bool failed = false;  // There was an error on it.
  };
  struct Thing {
    warpline_internal::KeptThing kept;
    std::vector<UniqueFd> fds;
  };

  absl::Status Start(const std::string& program, bool check, Program* to);
  void StartServer(const std::string& program, Phase phase);
  // The server that was started cannot be used.
  void StartAgain(const std::string& why);
  // The former server goes on with what was kept.
  void RollBack(const std::string& why);
  // The server serves, and needs nothing of what was kept.
  void GoOn();
  // Receives a packet. The socket is closed once there is nothing more to be had of it.
  static absl::Status Receive(Program* from, warpline_internal::ToParent* message,
                              std::vector<UniqueFd>* fds);
  void OnSignal();
  void OnServerSays();
  void OnCheckSays();
  void OnServerEnded();
  void OnCheckEnded();
  void OnDeadline();
  void OnReady(const warpline_internal::ServerReady& ready);
  void OnKeep(warpline_internal::ToParent* message, std::vector<UniqueFd> fds);
  void OnPassedOn(const warpline_internal::PassedOn& passed);
  void BeginUpgrade(const warpline_internal::UpgradeOrder& order);
  void EndCheck(const std::string& why);
  void Refuse(const std::string& number, const std::string& why);
  void TellServer(const warpline_internal::ToServer& message);
  void SendSignal(int signal);

  const ServerParentOptions options_;
  UniqueFd signals_;
  Phase phase_ = Phase::kStarting;
  absl::Time deadline_ = absl::InfiniteFuture();
  Program server_;
  Program check_;
  std::string check_why_;
  std::string running_;  // The program of the server that serves, or did.
  std::string version_;
  warpline_internal::UpgradeOrder order_;
  warpline_internal::UpgradeReport report_;
  absl::Time begun_;        // The sessions were told to rest.
  std::string server_why_;  // Why the server that starts says that it cannot.
  std::string trial_version_;
  std::vector<Thing> kept_;
  bool incomplete_ = false;  // Some of it did not arrive.
  bool passed_on_ = false;
  int rollbacks_ = 0;
  int end_signal_ = 0;  // Told to end, and not passed on yet.
  bool ending_ = false;
  std::optional<int> exit_code_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_UPGRADE_SERVER_PARENT_H_
