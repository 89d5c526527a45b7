#include "transport/grpc/stream_loop.h"

#include <grpc/support/time.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::grpc_internal {
namespace {

// How long an orderly close waits for its frames to leave and for the peer to end its half, and how
// long a close with an error waits for the error to leave.
constexpr std::chrono::milliseconds kFlushLinger{5000};
constexpr std::chrono::milliseconds kErrorLinger{1000};

gpr_timespec Past() { return gpr_inf_past(GPR_CLOCK_MONOTONIC); }

}  // namespace

StreamLoop::StreamLoop(StreamSide side, GrpcStream* stream, grpc::CompletionQueue* queue,
                       const ChannelOptions& options, size_t max_payload)
    : side_(side),
      stream_(stream),
      queue_(queue),
      poll_(absl::ToChronoNanoseconds(options.poll)),
      max_payload_(max_payload),
      decoder_(max_payload) {}

void* StreamLoop::ExpectStartTag() {
  start_pending_ = true;
  return &start_tag_;
}

void StreamLoop::Run(ChannelHandler* handler) {
  handler_ = handler;
  Clock::time_point last_activity = Clock::now();
  while (!Finished()) {
    const bool active = Turn();
    const Clock::time_point now = Clock::now();
    if (now >= linger_until_ && !cut_) {
      cut_ = true;
      if (local_status_.ok()) {
        local_status_ = absl::UnavailableError("the peer did not end the stream in time");
      }
      stream_->Cancel();
    }
    if (active) {
      last_activity = now;
    } else if (now - last_activity >= poll_) {
      Park();
      last_activity = Clock::now();
    } else {
      sched_yield();
    }
  }
  handler_->OnClosed(FinalStatus());
  if (park_.Retire()) bell_pending_ = true;
  void* tag;
  bool ok;
  while (bell_pending_ && queue_->Next(&tag, &ok)) Handle(tag, ok);
}

// Returns whether anything happened.
bool StreamLoop::Turn() {
  if (has_request_.load(std::memory_order_acquire)) TakeRequests();
  bool active = OfferHeld();
  active |= SendNext();
  MaybeEndWrites();
  MaybeRead();
  active |= PollQueue();
  return active;
}

bool StreamLoop::Finished() const {
  return ended_ && !start_pending_ && !read_pending_ && !write_pending_ && !end_writes_pending_;
}

void StreamLoop::TakeRequests() {
  bool cancel;
  std::optional<absl::Status> close;
  {
    MutexLock lock(&mu_);
    has_request_.store(false, std::memory_order_relaxed);
    cancel = std::exchange(cancel_request_, false);
    close = std::exchange(close_request_, std::nullopt);
  }
  if (cancel && !cut_) {
    cut_ = true;
    StopReceiving();
    phase_ = Phase::kEnding;
    if (local_status_.ok()) local_status_ = absl::CancelledError("channel destroyed");
    stream_->Cancel();
    return;
  }
  if (!close.has_value() || phase_ == Phase::kEnding) return;
  if (!close->ok()) {
    FailLocally(*close);
  } else {
    StopReceiving();
    phase_ = Phase::kFlushing;
    linger_until_ = Clock::now() + kFlushLinger;
  }
}

bool StreamLoop::OfferHeld() {
  if (!held_ || handler_->OnFrame(&received_) == Accept::kLater) return false;
  held_ = false;
  return true;
}

bool StreamLoop::SendNext() {
  if (phase_ == Phase::kEnding || write_pending_ || start_pending_) return false;
  Frame frame;
  if (!handler_->NextFrame(&frame)) {
    // A held frame came before the peer's end of stream and is the handler's before ours.
    if (phase_ == Phase::kFlushing && !held_) BeginEnd(absl::OkStatus(), kFlushLinger);
    return false;
  }
  if (frame.bytes().size() > max_payload_) {
    FailLocally(absl::InvalidArgumentError(
        absl::StrCat("frame of ", frame.bytes().size(), " bytes is above the size limit")));
    return true;
  }
  write_pending_ = true;
  stream_->Write(EncodeFrame(&frame), &write_tag_);
  return true;
}

void StreamLoop::MaybeEndWrites() {
  if (!end_writes_ || write_pending_ || start_pending_) return;
  end_writes_ = false;
  end_writes_pending_ = true;
  stream_->EndWrites(end_writes_status_, &end_writes_tag_);
}

void StreamLoop::MaybeRead() {
  if (held_ || read_pending_ || reads_ended_) return;
  read_pending_ = true;
  stream_->Read(&incoming_, &read_tag_);
}

void StreamLoop::BeginEnd(const absl::Status& status, std::chrono::milliseconds linger) {
  if (phase_ == Phase::kEnding) return;
  phase_ = Phase::kEnding;
  end_writes_ = true;
  end_writes_status_ = status;
  if (linger_until_ == Clock::time_point::max()) linger_until_ = Clock::now() + linger;
}

void StreamLoop::StopReceiving() {
  receiving_ = false;
  held_ = false;
}

void StreamLoop::FailLocally(const absl::Status& status) {
  if (local_status_.ok()) local_status_ = status;
  StopReceiving();
  linger_until_ = Clock::now() + kErrorLinger;
  BeginEnd(status, kErrorLinger);
}

bool StreamLoop::PollQueue() {
  void* tag;
  bool ok;
  if (queue_->AsyncNext(&tag, &ok, Past()) != grpc::CompletionQueue::GOT_EVENT) return false;
  Handle(tag, ok);
  return true;
}

void StreamLoop::Park() {
  // While a bell is to be expected it ends the wait, so there is no need for another.
  const bool announced = !bell_pending_;
  if (announced) {
    park_.Announce();
    const bool found = has_request_.load(std::memory_order_acquire) || OfferHeld() || SendNext();
    MaybeEndWrites();
    MaybeRead();
    if (found) {
      if (park_.Retract()) bell_pending_ = true;
      return;
    }
  }
  void* tag;
  bool ok;
  grpc::CompletionQueue::NextStatus got = grpc::CompletionQueue::GOT_EVENT;
  if (linger_until_ == Clock::time_point::max()) {
    if (!queue_->Next(&tag, &ok)) got = grpc::CompletionQueue::SHUTDOWN;
  } else {
    const std::chrono::nanoseconds left =
        std::max(linger_until_ - Clock::now(), Clock::duration::zero());
    // Once the stream was cut nothing is left to time out.
    const gpr_timespec deadline =
        cut_ ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
             : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                            gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
    got = queue_->AsyncNext(&tag, &ok, deadline);
  }
  if (announced && park_.Retract()) bell_pending_ = true;
  if (got == grpc::CompletionQueue::GOT_EVENT) Handle(tag, ok);
}

void StreamLoop::Handle(void* tag, bool ok) {
  if (tag == &read_tag_) {
    read_pending_ = false;
    OnRead(ok);
  } else if (tag == &write_tag_) {
    write_pending_ = false;
    // A failed write means that the stream is over; how it ended comes through the other tags.
    if (!ok && phase_ != Phase::kEnding) phase_ = Phase::kEnding;
  } else if (tag == &end_writes_tag_) {
    end_writes_pending_ = false;
  } else if (tag == &start_tag_) {
    start_pending_ = false;
  } else if (tag == &end_tag_) {
    ended_ = true;
    StopReceiving();
    phase_ = Phase::kEnding;
    end_writes_ = false;
  } else if (tag == &bell_tag_) {
    bell_pending_ = false;
  }
}

void StreamLoop::OnRead(bool ok) {
  if (!ok) {
    OnReadsEnded();
    return;
  }
  if (!receiving_) {
    incoming_.Clear();
    return;
  }
  const absl::Status decoded = decoder_.Decode(incoming_, &received_, &peer_close_);
  incoming_.Clear();
  if (!decoded.ok()) {
    FailLocally(decoded);
  } else if (!peer_close_.ok()) {
    StopReceiving();
    BeginEnd(peer_close_, kErrorLinger);
  } else {
    held_ = handler_->OnFrame(&received_) == Accept::kLater;
  }
}

void StreamLoop::OnReadsEnded() {
  reads_ended_ = true;
  if (side_ == StreamSide::kServer) {
    // Either the client has ended its half, and so do we after a flush, or the stream is lost, and
    // the end's tag follows.
    if (phase_ == Phase::kOpen) phase_ = Phase::kFlushing;
    return;
  }
  phase_ = Phase::kEnding;
  end_writes_ = false;
  if (!end_asked_) {
    end_asked_ = true;
    stream_->AwaitEnd(&end_tag_);
  }
}

absl::Status StreamLoop::FinalStatus() {
  if (!local_status_.ok()) return local_status_;
  if (!peer_close_.ok()) return peer_close_;
  return stream_->EndStatus();
}

void StreamLoop::Wake() {
  if (park_.Signal()) bell_.Set(queue_, Past(), &bell_tag_);
}

void StreamLoop::Close(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    // The first reason stands, but an error overtakes an orderly close.
    if (!close_request_.has_value() || close_request_->ok()) close_request_ = status;
    has_request_.store(true, std::memory_order_release);
  }
  Wake();
}

void StreamLoop::Cancel() {
  {
    MutexLock lock(&mu_);
    cancel_request_ = true;
    has_request_.store(true, std::memory_order_release);
  }
  Wake();
}

}  // namespace warpline::grpc_internal
