#include "transport/inproc/inproc_loop.h"

#include <sched.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::inproc_internal {
namespace {

constexpr std::chrono::seconds kLinger{5};

}  // namespace

InprocLoop::InprocLoop(int end, std::shared_ptr<InprocLink> link, std::shared_ptr<Bell> bell,
                       std::shared_ptr<Bell> peer_bell, const ChannelOptions& options)
    : end_(end),
      link_(std::move(link)),
      bell_(std::move(bell)),
      peer_bell_(std::move(peer_bell)),
      poll_(absl::ToChronoNanoseconds(options.poll)) {}

void InprocLoop::Run(ChannelHandler* handler) {
  handler_ = handler;
  Clock::time_point last_activity = Clock::now();
  while (!finished_.has_value()) {
    const bool active = Turn();
    const Clock::time_point now = Clock::now();
    if (linger_.over(now)) {
      Finish(absl::UnavailableError("the peer did not end the stream in time"));
    } else if (active) {
      last_activity = now;
    } else if (now - last_activity >= poll_) {
      Park();
      last_activity = Clock::now();
    } else {
      sched_yield();
    }
  }
  // In order, the link stays for the peer to read the end from it.
  if (!finished_->ok() && !sent_end_) link_->Break();
  peer_bell_->Wake();
  handler_->OnClosed(*finished_);
  // A waker that won may ring late; the bell outlives this end.
  bell_->park_.Retire();
}

bool InprocLoop::Turn() {
  if (requests_.any()) TakeRequests();
  if (finished_.has_value()) return true;
  bool active = Receive();
  if (!finished_.has_value()) active |= Send();
  return active;
}

bool InprocLoop::Receive() {
  if (inbox_.held()) return inbox_.OfferHeld(handler_);
  if (peer_ended_) return false;
  absl::Status end_status;
  switch (link_->Take(end_, inbox_.frame(), &end_status)) {
    case InprocLink::Taken::kNothing:
      return false;
    case InprocLink::Taken::kFrame:
      peer_bell_->Wake();  // There is room again.
      inbox_.Deliver(handler_);
      return true;
    case InprocLink::Taken::kEnd:
      peer_ended_ = true;
      if (!end_status.ok() || sent_end_) {
        Finish(end_status);
      } else {
        flushing_ = true;
      }
      return true;
    case InprocLink::Taken::kBroken:
      Finish(absl::UnavailableError("connection lost"));
      return true;
  }
  return false;
}

bool InprocLoop::Send() {
  if (sent_end_ || !link_->HasRoom(end_)) return false;
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
  link_->Put(end_, std::move(frame));
  peer_bell_->Wake();
  return true;
}

void InprocLoop::TakeRequests() {
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

void InprocLoop::End(const absl::Status& status) {
  sent_end_ = true;
  link_->PutEnd(end_, status);
  peer_bell_->Wake();
  if (peer_ended_) Finish(absl::OkStatus());
}

void InprocLoop::Finish(const absl::Status& status) {
  if (!finished_.has_value()) finished_ = status;
}

void InprocLoop::Park() {
  ParkState& park = bell_->park_;
  {
    // A bell of an earlier park may have rung late.
    MutexLock lock(&bell_->mu_);
    bell_->rung_ = false;
  }
  park.Announce();
  if (requests_.any() || Turn()) {
    park.Retract();
    return;
  }
  {
    MutexLock lock(&bell_->mu_);
    while (!bell_->rung_ && !linger_.over(Clock::now())) {
      if (linger_.started()) {
        bell_->rung_changed_.WaitWithTimeout(&bell_->mu_, absl::FromChrono(linger_.left()));
      } else {
        bell_->rung_changed_.Wait(&bell_->mu_);
      }
    }
  }
  park.Retract();
}

void InprocLoop::Close(const absl::Status& status) {
  requests_.Close(status);
  Wake();
}

void InprocLoop::Cancel() {
  requests_.Cancel();
  Wake();
}

}  // namespace warpline::inproc_internal
