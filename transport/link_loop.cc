#include "transport/link_loop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/loop/adaptive_poll.h"

namespace warpline {
namespace {

constexpr std::chrono::seconds kLinger{5};

// How long what comes after a frame waits, where others want the processors: each frame is work for
// threads of three processes, which they would have to leave those for.
constexpr std::chrono::microseconds kGatherWhereWanted{50};

// Moments that the loop's own thread leaves to those that drive.
constexpr int kLeftToDrivers = 100;

}  // namespace

LinkLoop::LinkLoop(std::unique_ptr<LinkEnd> link, const ChannelOptions& options)
    : link_(std::move(link)),
      poll_(absl::ToChronoNanoseconds(options.poll)),
      gather_(absl::ToChronoNanoseconds(options.gather)) {}

void LinkLoop::Run(ChannelHandler* handler) {
  TakeTurn();
  handler_ = handler;
  AdaptivePoll poll(poll_);
  while (!finished_.has_value()) {
    const bool active = Turn(/*send_now=*/false);
    const Clock::time_point now = Clock::now();
    wanted_ = poll.yields(now);
    if (linger_.over(now)) {
      Finish(absl::UnavailableError("the peer did not end the stream in time"));
    } else if (active) {
      poll.Found(now);
    } else if (poll.over(now)) {
      const AdaptivePoll::Sleep sleep(&poll);
      Park();
    } else {
      LeaveTurn();
      poll.Rest();
      // Threads that drive do it sooner, unless they have no processor.
      for (int i = 0; i < kLeftToDrivers && drivers_.load(std::memory_order_relaxed) > 0; ++i) {
        poll.Rest();
        poll.Found(now);
      }
      TakeTurn();
    }
  }
  // In order, the link stays for the other end to read the end from it.
  if (!finished_->ok() && !sent_end_) link_->Break();
  handler_->OnClosed(*finished_);
  LeaveTurn();
}

void LinkLoop::TakeTurn() {
  while (!TryTakeTurn()) Relax();
}

void LinkLoop::Drive(absl::FunctionRef<bool()> done, absl::Duration limit) {
  const Clock::time_point until = Clock::now() + absl::ToChronoNanoseconds(limit);
  drivers_.fetch_add(1, std::memory_order_relaxed);
  {
    const LoopScope scope(&channel_loop);
    bool over = false;
    while (!done() && !over && Clock::now() < until) {
      if (TryTakeTurn()) {
        // Before Run() there is no handler, and after the end nothing to do.
        over = handler_ == nullptr || finished_.has_value();
        if (!over) Turn(/*send_now=*/true);
        LeaveTurn();
      }
      if (!done()) Relax();
    }
  }
  drivers_.fetch_sub(1, std::memory_order_relaxed);
  if (parked_.load()) Wake();
}

bool LinkLoop::Turn(bool send_now) {
  if (requests_.any()) TakeRequests();
  if (finished_.has_value()) return true;
  bool active = Receive();
  if (finished_.has_value()) return true;
  if (!send_now && gather_.count() > 0 && Clock::now() < next_send_) return active;
  if (Send()) {
    active = true;
    if (gather_.count() > 0) next_send_ = Clock::now() + Gather();
  }
  return active;
}

std::chrono::nanoseconds LinkLoop::Gather() const {
  return wanted_ ? std::max<std::chrono::nanoseconds>(gather_, kGatherWhereWanted) : gather_;
}

bool LinkLoop::Receive() {
  if (inbox_.held()) return inbox_.OfferHeld(handler_);
  if (peer_ended_) return false;
  absl::Status why;
  switch (link_->Take(inbox_.frame(), &why)) {
    case LinkEnd::Taken::kNothing:
      return false;
    case LinkEnd::Taken::kFrame:
      inbox_.Deliver(handler_);
      return true;
    case LinkEnd::Taken::kEnd:
      peer_ended_ = true;
      if (!why.ok() || sent_end_) {
        Finish(why);
      } else {
        // The other end waits no longer for ours either.
        flushing_ = true;
        if (!linger_.started()) linger_.Start(kLinger);
      }
      return true;
    case LinkEnd::Taken::kBroken:
      Finish(why);
      return true;
  }
  return false;
}

bool LinkLoop::Send() {
  if (sent_end_ || !link_->HasRoom()) return false;
  Frame frame;
  if (!handler_->NextFrame(&frame)) {
    if (!flushing_ || inbox_.held()) return false;
    End(absl::OkStatus());
    return true;
  }
  if (frame.bytes().size() > kMaxFramePayload) {
    const absl::Status status = absl::InvalidArgumentError(
        absl::StrCat("frame of ", frame.bytes().size(), " bytes is above the size limit"));
    End(status);
    Finish(status);
    return true;
  }
  link_->Put(std::move(frame));
  return true;
}

void LinkLoop::TakeRequests() {
  const CloseRequests::Taken asked = requests_.Take();
  if (asked.cancel) {
    link_->Break();
    Finish(absl::CancelledError("channel destroyed"));
    return;
  }
  if (!asked.close.has_value() || sent_end_) return;
  inbox_.Shut();
  if (asked.close->ok()) {
    flushing_ = true;
    linger_.Start(kLinger);
  } else {
    End(*asked.close);
    Finish(*asked.close);
  }
}

void LinkLoop::End(const absl::Status& status) {
  sent_end_ = true;
  link_->PutEnd(status);
  if (peer_ended_) Finish(absl::OkStatus());
}

void LinkLoop::Finish(const absl::Status& status) {
  if (!finished_.has_value()) finished_ = status;
}

void LinkLoop::Park() {
  link_->BeginSleep();
  if (!requests_.any() && !Turn(/*send_now=*/true)) {
    std::optional<std::chrono::nanoseconds> at_most;
    if (linger_.started()) at_most = linger_.left();
    parked_.store(true);
    LeaveTurn();
    link_->Sleep(at_most);
    TakeTurn();
    parked_.store(false);
  }
  link_->EndSleep();
}

void LinkLoop::Close(const absl::Status& status) {
  requests_.Close(status);
  Wake();
}

void LinkLoop::Cancel() {
  requests_.Cancel();
  Wake();
}

}  // namespace warpline
