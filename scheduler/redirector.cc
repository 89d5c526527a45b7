#include "scheduler/redirector.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "lease/device_match.h"
#include "lease/entitlement.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/leader_hint.h"
#include "proto/session.pb.h"
#include "transport/channel_loop.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::Hello;

constexpr size_t kMaxProgramName = 256;

// The number of devices that a client wants when it names them by ordinals. These count the devices
// that the program sees, which are all of its lease's. NOT_FOUND unless they are 0 and up without
// gaps.
absl::StatusOr<uint32_t> CountOf(const std::string& device) {
  const std::vector<std::string> entries = ParseDeviceNames(device);
  if (entries.empty()) return 0;
  std::set<uint32_t> ordinals;
  for (const std::string& entry : entries) {
    uint32_t ordinal;
    const bool fits = absl::SimpleAtoi(entry, &ordinal) && ordinal < kMaxSessionDevices &&
                      ordinals.insert(ordinal).second;
    if (!fits) return absl::NotFoundError("a lease's devices are numbered from 0");
  }
  if (*ordinals.rbegin() + 1 != ordinals.size()) {
    return absl::NotFoundError("a lease's devices are numbered from 0, without gaps");
  }
  return static_cast<uint32_t>(ordinals.size());
}

}  // namespace

// One conversation: a hello and its answer.
class Conversation : public SessionHandler {
 public:
  Conversation(Redirector* owner, const std::string& peer)
      : owner_(owner), peer_(peer), local_(IsLocalPeer(peer)), holder_(HolderOf(peer)) {}

  void Started(Channel* channel) RUNS_ON(channel_loop) override {
    channel_ = channel;
    MutexLock lock(&owner_->mu_);
    owner_->channels_[channel] = SteadyNow();
  }

  bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override {
    if (!answer_.has_value()) return false;
    *frame = *std::move(answer_);
    answer_.reset();
    return true;
  }

  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) override {
    if (answered_) return Accept::kTaken;
    answered_ = true;
    Hello hello;
    if (frame->kind != kHello || !hello.ParseFromString(frame->payload)) {
      channel_->Close(absl::InvalidArgumentError("a scheduler expects a hello"));
      return Accept::kTaken;
    }
    channel_->Close(Answer(hello));
    return Accept::kTaken;
  }

  void OnClosed(const absl::Status&) RUNS_ON(channel_loop) override {
    MutexLock lock(&owner_->mu_);
    owner_->channels_.erase(channel_);
  }

 private:
  absl::Status Answer(const Hello& hello) RUNS_ON(channel_loop) {
    if (AgreedVersion(hello.min_version(), hello.max_version()) == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the client speaks protocol versions ", hello.min_version(), " to ", hello.max_version(),
          ", this scheduler ", kLeastProtocolVersion, " to ", kProtocolVersion));
    }
    warpline_internal::AcquireRequest request;
    request.set_credential(hello.credential());
    request.set_program(FitText(hello.program(), kMaxProgramName));
    request.set_pid(hello.pid());
    request.set_slice(hello.slice());
    if (IsUuidName(hello.device())) {
      request.set_device(hello.device());
    } else {
      const auto devices = CountOf(hello.device());
      if (!devices.ok()) return devices.status();
      request.set_devices(*devices);
    }
    const auto lease = AnswerLeading(owner_->role_, [&](Scheduler& scheduler) {
      return scheduler.Acquire(request, /*by_sessions=*/true, local_, holder_, peer_);
    });
    warpline_internal::Redirect redirect;
    if (lease.ok()) {
      redirect.set_endpoint(lease->endpoint());
      redirect.set_token(lease->token());
    } else {
      redirect.set_endpoint(LeaderIn(lease.status()));
      if (redirect.endpoint().empty()) return lease.status();
    }
    Frame frame;
    frame.kind = kRedirect;
    frame.payload = redirect.SerializeAsString();
    answer_ = std::move(frame);
    return absl::OkStatus();
  }

  Redirector* const owner_;
  const std::string peer_;
  const bool local_;
  const CertificateHolder holder_;
  Channel* channel_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  bool answered_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<Frame> answer_ ABSL_GUARDED_BY(channel_loop);
};

std::unique_ptr<SessionHandler> Redirector::Accept(const std::string& peer, absl::Status* refusal) {
  if (draining_.load()) {
    *refusal = absl::UnavailableError("the scheduler is shutting down");
    return nullptr;
  }
  return std::make_unique<Conversation>(this, peer);
}

void Redirector::EndSilent(absl::Duration patience) {
  const absl::Time now = SteadyNow();
  MutexLock lock(&mu_);
  // Closing returns at once; a channel exists until OnClosed(), which waits for this lock.
  for (const auto& [channel, since] : channels_) {
    if (now - since >= patience) channel->Close(absl::DeadlineExceededError("no Hello came"));
  }
}

}  // namespace warpline::scheduler
