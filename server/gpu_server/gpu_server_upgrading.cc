// The part of GpuServer that takes over from the version of the server before, and passes on to the
// next one (server/gpu_server/upgrade/).
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "common/steady_time.h"
#include "server/gpu_server/gpu_server.h"
#include "server/gpu_server/upgrade/passed_session.h"

namespace warpline::server {
namespace {

// A version passes these on to the next one. Names and contents stay as they are for good.
constexpr char kAddressesThing[] = "addresses";     // The listener's, with commas.
constexpr char kNameThing[] = "name";               // The scheduler's for this server.
constexpr char kHostMemoryThing[] = "host-memory";  // SessionOptions::host_memory_socket.
constexpr char kGroupsThing[] = "cgroup";           // Jailer::cgroup().
constexpr char kBlocksThing[] = "blocks";           // Those of SwapSpace, in their order.
constexpr char kSessionThing[] = "session";         // PassedSession.

}  // namespace

void GpuServer::TakeSettings() {
  if (parent_ == nullptr) return;
  // The version before has moved both into a group below the one that is to be managed.
  const std::string managed = parent_->TextOf(kGroupsThing);
  if (options_.jail.cgroup == "auto" && !managed.empty()) options_.jail.cgroup = managed;
  options_.jail.companion = getppid();
  // Its scheduler knows it by that name.
  if (options_.scheduler.name.empty()) options_.scheduler.name = parent_->TextOf(kNameThing);
}

std::string GpuServer::FormerHostMemorySocket() const {
  return parent_ == nullptr ? "" : parent_->TextOf(kHostMemoryThing);
}

std::vector<UniqueFd> GpuServer::TakeBlocks() {
  std::vector<UniqueFd> blocks;
  if (parent_ == nullptr) return blocks;
  for (PassedThing& thing : parent_->Take(kBlocksThing)) {
    for (UniqueFd& fd : thing.fds) blocks.push_back(std::move(fd));
  }
  return blocks;
}

absl::Status GpuServer::TakePassed() {
  if (parent_ == nullptr) return absl::OkStatus();
  for (PassedThing& session : parent_->Take(kSessionThing)) {
    auto cut = TakePassedSession(std::move(session.fds), swap_.get());
    if (cut.ok()) {
      passed_.push_back(*std::move(cut));
    } else if (parent_->rolled_back()) {
      LogError("a session is lost: ", cut.status().ToString());
    } else {
      return cut.status();
    }
  }
  return absl::OkStatus();
}

absl::Status GpuServer::AdoptPassed() {
  if (parent_ == nullptr) return absl::OkStatus();
  const bool all = !parent_->rolled_back();
  const auto adopted = host_->AdoptPassed(std::exchange(passed_, {}), all,
                                          SteadyNow() + options_.sessions.resume_timeout);
  if (!adopted.ok()) return adopted.status();
  if (const absl::Status ready = parent_->Ready(*adopted); !ready.ok()) return ready;
  host_->LetPassedIn();
  if (parent_->is_upgrade()) LogInfo("took over sessions=", *adopted);
  return absl::OkStatus();
}

std::string GpuServer::AddressOf(const std::string& address) const {
  // The port was the system's choice, and clients know it.
  if (parent_ == nullptr || !absl::EndsWith(address, ":0")) return address;
  const std::vector<std::string> former =
      absl::StrSplit(parent_->TextOf(kAddressesThing), ',', absl::SkipEmpty());
  for (size_t i = 0; i < options_.listen.addresses.size() && i < former.size(); ++i) {
    if (options_.listen.addresses[i] == address) return former[i];
  }
  return address;
}

absl::Status GpuServer::KeepAll() {
  absl::Status kept =
      parent_->Keep(kAddressesThing, absl::StrJoin(listener_->addresses(), ","), {});
  if (kept.ok()) kept = parent_->Keep(kNameThing, leases_->options().server_name, {});
  if (kept.ok()) kept = parent_->Keep(kHostMemoryThing, host_->host_memory_socket(), {});
  if (kept.ok()) kept = parent_->Keep(kGroupsThing, jailer_->cgroup(), {});
  for (size_t begin = 0; kept.ok() && begin < swap_->blocks(); begin += kMaxPacketFds) {
    std::vector<int> fds;
    for (size_t i = begin; i < std::min(swap_->blocks(), begin + kMaxPacketFds); ++i) {
      fds.push_back(swap_->block_fd(i));
    }
    kept = parent_->Keep(kBlocksThing, "", fds);
  }
  for (SessionCut& cut : passed_) {
    if (!kept.ok()) break;
    const auto passed = PassSession(&cut);
    kept = passed.ok() ? parent_->Keep(kSessionThing, "", passed->fds) : passed.status();
  }
  return kept.ok() ? parent_->PassedOn() : kept;
}

absl::Status GpuServer::PassOn(bool force) {
  LogInfo("passes on sessions=", host_->sessions(),
          " drain_seconds=", absl::ToInt64Seconds(options_.drain_timeout));
  auto cuts = host_->CutAll(options_.drain_timeout, force);
  absl::Status passed = cuts.status();
  if (cuts.ok()) {
    passed_ = *std::move(cuts);
    passed = KeepAll();
    host_->EndCut(passed_, passed);
  }
  if (!passed.ok()) {
    passed_.clear();
    parent_->Stay(passed);
    return passed;
  }
  LogInfo("passed on sessions=", passed_.size());
  host_->StartDrain();
  listener_->SetServing(false);
  if (health_ != nullptr) health_->SetReady(false);
  host_->FaultAll("the server was replaced by another version");
  if (direct_listener_ != nullptr) direct_listener_->Shutdown(absl::ZeroDuration());
  listener_->Shutdown(absl::ZeroDuration());
  Record(audit::Event::kServerStopped);
  return absl::OkStatus();
}

}  // namespace warpline::server
