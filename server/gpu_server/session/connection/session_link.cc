#include "server/gpu_server/session/connection/session_link.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

// Below this a second copy costs less than sharing one.
constexpr size_t kCopyBelow = 4096;

}  // namespace

void SessionLink::OnSend(Frame* frame) {
  ++sent_;
  if (!keeps()) {
    acked_ = sent_;
    return;
  }
  Kept kept = {frame->kind, nullptr};
  if (frame->payload.size() < kCopyBelow) {
    kept.payload = std::make_shared<const std::string>(frame->payload);
  } else {
    kept.payload = std::make_shared<const std::string>(std::move(frame->payload));
    frame->payload.clear();
    frame->shared = kept.payload;
  }
  kept_bytes_.store(kept_bytes() + kept.payload->size(), std::memory_order_relaxed);
  kept_.push_back(std::move(kept));
  next_ = kept_.size();
}

absl::Status SessionLink::OnAck(uint64_t frames) {
  if (!keeps()) return absl::InvalidArgumentError("an acknowledgement that nobody asked for");
  // What is being sent again cannot have been handled before it is sent.
  if (frames > acked_ + next_) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame ", frames, " is acknowledged and only ", acked_ + next_, " were sent"));
  }
  while (acked_ < frames) {
    kept_bytes_.store(kept_bytes() - kept_.front().payload->size(), std::memory_order_relaxed);
    kept_.pop_front();
    --next_;
    ++acked_;
  }
  return absl::OkStatus();
}

absl::Status SessionLink::OnShortAck(uint32_t frames) {
  if (!keeps() && frames == 0) return absl::OkStatus();
  // An older number is none of a correct client, and reads as one far ahead.
  const uint32_t ahead = frames - static_cast<uint32_t>(acked_);
  return OnAck(acked_ + ahead);
}

absl::Status SessionLink::Rewind(uint64_t frames) {
  if (frames < acked_ || frames > sent_) {
    return absl::InvalidArgumentError(absl::StrCat("a resumption from frame ", frames, " with ",
                                                   acked_, " acknowledged and ", sent_, " sent"));
  }
  next_ = kept_.size();
  if (absl::Status acked = OnAck(frames); !acked.ok()) return acked;
  next_ = 0;
  return absl::OkStatus();
}

SessionLink::State SessionLink::Show() const {
  State state = {.received_seq = received_seq_,
                 .received_controls = received_controls_,
                 .sent = sent_,
                 .acked = acked_};
  for (const Kept& kept : kept_) state.kept.emplace_back(kept.kind, *kept.payload);
  return state;
}

absl::Status SessionLink::Adopt(State state) {
  uint64_t bytes = 0;
  for (const auto& [kind, payload] : state.kept) {
    if (!IsCountedToClient(kind) || payload.size() > kMaxFramePayload) {
      return absl::InvalidArgumentError("a frame that no session keeps");
    }
    bytes += payload.size();
  }
  if (state.sent - state.acked != state.kept.size() || state.acked > state.sent) {
    return absl::InvalidArgumentError("other frames than were sent");
  }
  received_seq_ = state.received_seq;
  received_controls_ = state.received_controls;
  sent_ = state.sent;
  acked_ = state.acked;
  for (auto& [kind, payload] : state.kept) {
    kept_.push_back({kind, std::make_shared<const std::string>(std::move(payload))});
  }
  next_ = kept_.size();
  kept_bytes_.store(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

bool SessionLink::NextAgain(Frame* frame) {
  if (next_ == kept_.size()) return false;
  const Kept& kept = kept_[next_++];
  frame->kind = kept.kind;
  frame->payload.clear();
  frame->shared = kept.payload;
  return true;
}

}  // namespace warpline::server
