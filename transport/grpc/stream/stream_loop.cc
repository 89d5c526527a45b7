#include "transport/grpc/stream/stream_loop.h"

#include <grpc/support/time.h>
#include <sched.h>

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

void StreamLoop::Run(ChannelHandler* handler) {
  handler_ = handler;
  Clock::time_point last_activity = Clock::now();
  while (!Finished()) {
    const bool active = Turn();
    const Clock::time_point now = Clock::now();
    if (linger_.over(now) && !cut_) {
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
  if (park_.Retire()) operations_.Begin(Operation::kBell);
  void* tag;
  bool ok;
  while (operations_.under_way(Operation::kBell) && queue_->Next(&tag, &ok)) Handle(tag, ok);
}

// Returns whether anything happened.
bool StreamLoop::Turn() {
  if (requests_.any()) TakeRequests();
  bool active = inbox_.OfferHeld(handler_);
  active |= SendNext();
  MaybeEndWrites();
  MaybeRead();
  active |= PollQueue();
  return active;
}

bool StreamLoop::Finished() const {
  return ended_ && !operations_.under_way(Operation::kStart) &&
         !operations_.under_way(Operation::kRead) && !operations_.under_way(Operation::kWrite) &&
         !operations_.under_way(Operation::kEndWrites);
}

void StreamLoop::TakeRequests() {
  const CloseRequests::Taken asked = requests_.Take();
  if (asked.cancel && !cut_) {
    cut_ = true;
    inbox_.Shut();
    phase_ = Phase::kEnding;
    if (local_status_.ok()) local_status_ = absl::CancelledError("channel destroyed");
    stream_->Cancel();
    return;
  }
  if (!asked.close.has_value() || phase_ == Phase::kEnding) return;
  if (!asked.close->ok()) {
    FailLocally(*asked.close);
  } else {
    inbox_.Shut();
    phase_ = Phase::kFlushing;
    linger_.Start(kFlushLinger);
  }
}

bool StreamLoop::SendNext() {
  if (phase_ == Phase::kEnding || Writing()) return false;
  Frame frame;
  if (!handler_->NextFrame(&frame)) {
    // A held frame came before the peer's end of stream and is the handler's before ours.
    if (phase_ == Phase::kFlushing && !inbox_.held()) BeginEnd(absl::OkStatus(), kFlushLinger);
    return false;
  }
  if (frame.bytes().size() > max_payload_) {
    FailLocally(absl::InvalidArgumentError(
        absl::StrCat("frame of ", frame.bytes().size(), " bytes is above the size limit")));
    return true;
  }
  stream_->Write(EncodeFrame(&frame), operations_.Begin(Operation::kWrite));
  return true;
}

void StreamLoop::MaybeEndWrites() {
  if (!end_writes_.has_value() || Writing()) return;
  const absl::Status status = *std::exchange(end_writes_, std::nullopt);
  stream_->EndWrites(status, operations_.Begin(Operation::kEndWrites));
}

void StreamLoop::MaybeRead() {
  if (inbox_.held() || operations_.under_way(Operation::kRead) || reads_ended_) return;
  stream_->Read(&incoming_, operations_.Begin(Operation::kRead));
}

void StreamLoop::BeginEnd(const absl::Status& status, std::chrono::milliseconds linger) {
  if (phase_ == Phase::kEnding) return;
  phase_ = Phase::kEnding;
  end_writes_ = status;
  if (!linger_.started()) linger_.Start(linger);
}

void StreamLoop::FailLocally(const absl::Status& status) {
  if (local_status_.ok()) local_status_ = status;
  inbox_.Shut();
  linger_.Start(kErrorLinger);
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
  const bool announced = !operations_.under_way(Operation::kBell);
  if (announced) {
    park_.Announce();
    const bool found = requests_.any() || inbox_.OfferHeld(handler_) || SendNext();
    MaybeEndWrites();
    MaybeRead();
    if (found) {
      if (park_.Retract()) operations_.Begin(Operation::kBell);
      return;
    }
  }
  void* tag;
  bool ok;
  grpc::CompletionQueue::NextStatus got = grpc::CompletionQueue::GOT_EVENT;
  if (!linger_.started()) {
    if (!queue_->Next(&tag, &ok)) got = grpc::CompletionQueue::SHUTDOWN;
  } else {
    const std::chrono::nanoseconds left = linger_.left();
    // Once the stream was cut nothing is left to time out.
    const gpr_timespec deadline =
        cut_ ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
             : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                            gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
    got = queue_->AsyncNext(&tag, &ok, deadline);
  }
  if (announced && park_.Retract()) operations_.Begin(Operation::kBell);
  if (got == grpc::CompletionQueue::GOT_EVENT) Handle(tag, ok);
}

void StreamLoop::Handle(void* tag, bool ok) {
  switch (operations_.Complete(tag)) {
    case Operation::kRead:
      return OnRead(ok);
    case Operation::kWrite:
      // A failed write means that the stream is over; how it ended comes through the other tags.
      if (!ok) phase_ = Phase::kEnding;
      return;
    case Operation::kEnd:
      ended_ = true;
      inbox_.Shut();
      phase_ = Phase::kEnding;
      end_writes_.reset();
      return;
    case Operation::kStart:
    case Operation::kEndWrites:
    case Operation::kBell:
      return;
  }
}

void StreamLoop::OnRead(bool ok) {
  if (!ok) {
    OnReadsEnded();
    return;
  }
  if (!inbox_.open()) {
    incoming_.Clear();
    return;
  }
  const absl::Status decoded = decoder_.Decode(incoming_, inbox_.frame(), &peer_close_);
  incoming_.Clear();
  if (!decoded.ok()) {
    FailLocally(decoded);
  } else if (!peer_close_.ok()) {
    inbox_.Shut();
    BeginEnd(peer_close_, kErrorLinger);
  } else {
    inbox_.Deliver(handler_);
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
  end_writes_.reset();
  stream_->AwaitEnd(operations_.Begin(Operation::kEnd));
}

absl::Status StreamLoop::FinalStatus() {
  if (!local_status_.ok()) return local_status_;
  if (!peer_close_.ok()) return peer_close_;
  return stream_->EndStatus();
}

void StreamLoop::Wake() {
  if (park_.Signal()) bell_.Set(queue_, Past(), operations_.tag(Operation::kBell));
}

void StreamLoop::Close(const absl::Status& status) {
  requests_.Close(status);
  Wake();
}

void StreamLoop::Cancel() {
  requests_.Cancel();
  Wake();
}

}  // namespace warpline::grpc_internal
