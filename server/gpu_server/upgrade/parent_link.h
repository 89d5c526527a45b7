// A server's end of what it and its parent say to each other (server_parent.h).
#ifndef WARPLINE_SERVER_GPU_SERVER_UPGRADE_PARENT_LINK_H_
#define WARPLINE_SERVER_GPU_SERVER_UPGRADE_PARENT_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/admin.pb.h"
#include "proto/upgrade.pb.h"

namespace warpline::server {

// A thing that the server before this one passed on.
struct PassedThing {
  std::string name;
  std::string text;
  std::vector<UniqueFd> fds;
};

// Thread-safe but for Join(), Take() and TextOf(), which belong to the thread that made it.
class ParentLink {
 public:
  // Returns this process's link; null where it has no such parent.
  static std::unique_ptr<ParentLink> OfThisProcess();
  // `socket` is the packet socket to the parent.
  explicit ParentLink(UniqueFd socket) : socket_(std::move(socket)) {}
  ~ParentLink();
  ParentLink(const ParentLink&) = delete;
  ParentLink& operator=(const ParentLink&) = delete;

  // Receives what was passed on, and begins to listen to the parent: `pass_on` is called on another
  // thread, which must not wait, when the server is to pass on what it has. UNAVAILABLE when the
  // parent is gone.
  absl::Status Join(std::function<void(const warpline_internal::UpgradeOrder&)> pass_on);
  // Returns the things with this name, in their order, and forgets them.
  std::vector<PassedThing> Take(const std::string& name);
  // Returns the text of the first thing with this name; empty where there is none.
  std::string TextOf(const std::string& name) const;
  // Another server was there before this one, which is the former one after a trial that failed.
  bool is_upgrade() const { return start_.upgrade(); }
  bool rolled_back() const { return start_.rolled_back(); }

  // The server serves, with so many sessions taken over. Waits for the parent to agree, before
  // which nobody may use them. UNAVAILABLE when it does not.
  absl::Status Ready(uint32_t sessions);
  // The program can be started with these flags.
  void ReadyInCheck();
  // The server cannot be used.
  void Fail(const absl::Status& why);

  // Keeps a thing for the next server. `fds` are borrowed.
  absl::Status Keep(const std::string& name, const std::string& text, absl::Span<const int> fds);
  // All is kept. Returns OK once the parent has it: the server must end then.
  absl::Status PassedOn();
  // The server stays, and forgets what it has kept for another.
  void Stay(const absl::Status& why);

  // Begins an upgrade, or asks how one is, for `warpline server upgrade`.
  warpline_internal::UpgradeReply Answer(const warpline_internal::UpgradeRequest& request);

 private:
  void Listen();
  void OnMessage(const warpline_internal::ToServer& message);
  absl::Status Send(const warpline_internal::ToParent& message, absl::Span<const int> fds);

  const UniqueFd socket_;
  std::vector<PassedThing> things_;
  warpline_internal::ServerStart start_;
  std::function<void(const warpline_internal::UpgradeOrder&)> pass_on_;

  Mutex mu_;
  CondVar changed_;
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  bool committed_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t things_kept_ ABSL_GUARDED_BY(mu_) = 0;
  // The parent's answer to PassedOn().
  std::optional<absl::Status> kept_all_ ABSL_GUARDED_BY(mu_);
  bool passing_on_ ABSL_GUARDED_BY(mu_) = false;
  // The last upgrade that was asked for.
  std::string number_ ABSL_GUARDED_BY(mu_);
  warpline_internal::UpgradeReply state_ ABSL_GUARDED_BY(mu_);

  std::thread listener_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_UPGRADE_PARENT_LINK_H_
