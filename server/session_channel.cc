#include "server/session_channel.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline {
namespace {

using warpline_internal::Hello;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ReadBack;

// Control messages are small; a large one is an attack on the parser.
constexpr size_t kMaxControlPayload = 64u << 10;
// Answers that a client has not taken yet.
constexpr size_t kMaxBacklog = 64;
// The smallest command is its header.
constexpr size_t kMinCommandBytes = 8;

template <typename Message>
bool Parse(const Frame& frame, Message* message) {
  return frame.payload.size() <= kMaxControlPayload && message->ParseFromString(frame.payload);
}

}  // namespace

void SessionChannel::Started(Channel* channel) { port_->Attach(channel); }

void SessionChannel::OnClosed(const absl::Status& status) {
  port_->Detach();
  control_->OnChannelClosed(status);
}

Accept SessionChannel::Refuse(const absl::Status& status) {
  if (!closing_) {
    closing_ = true;
    control_->OnProtocolError(status);
    port_->Close(status);
  }
  return Accept::kTaken;
}

Accept SessionChannel::OnFrame(Frame* frame) {
  if (closing_) return Accept::kTaken;
  if (!hello_seen_ && frame->kind != kHello) {
    return Refuse(absl::InvalidArgumentError("the first frame of a session must be Hello"));
  }
  const bool useless =
      frame->kind == kCommands || frame->kind == kMemoryRequest || frame->kind == kMemoryReturn;
  if (useless && port_->faulted()) return Accept::kTaken;
  Accept accept = Accept::kTaken;
  switch (frame->kind) {
    case kHello:
      accept = OnHello(*frame);
      break;
    case kCommands:
      accept = OnCommands(*frame);
      break;
    case kMemoryRequest:
    case kMemoryReturn:
      accept = OnMemory(*frame);
      break;
    case kReadBack:
      accept = OnReadBack(*frame);
      break;
    case kClose:
      closing_ = true;
      port_->Close(absl::OkStatus());
      break;
    default:
      return Refuse(absl::InvalidArgumentError(absl::StrCat("unknown frame kind ", frame->kind)));
  }
  if (accept == Accept::kTaken) {
    last_activity_ = Clock::now();
    port_->traffic().frames_received.Add(1);
  }
  return accept;
}

Accept SessionChannel::OnHello(const Frame& frame) {
  if (hello_seen_) return Refuse(absl::InvalidArgumentError("a second Hello"));
  hello_seen_ = true;
  Hello hello;
  if (!Parse(frame, &hello)) return Refuse(absl::InvalidArgumentError("malformed Hello"));
  control_->OnHello(std::move(hello));
  return Accept::kTaken;
}

Accept SessionChannel::OnCommands(const Frame& frame) {
  WorkerRings* const rings = port_->rings();
  if (rings == nullptr) return Accept::kLater;  // The worker is still starting.
  CommandsHeader header;
  if (frame.payload.size() < sizeof(header) || frame.payload.size() > kMaxCommandsPayload) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("a commands frame of ", frame.payload.size(), " bytes")));
  }
  std::memcpy(&header, frame.payload.data(), sizeof(header));
  if (header.first_seq != received_seq_ + 1) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "commands start with ", header.first_seq, " where ", received_seq_ + 1, " was due")));
  }
  const size_t body = frame.payload.size() - sizeof(header);
  if (header.reserved != 0 || header.count == 0 || header.count > body / kMinCommandBytes) {
    return Refuse(
        absl::InvalidArgumentError(absl::StrCat(header.count, " commands in ", body, " bytes")));
  }
  const absl::StatusOr<bool> written = rings->TryWrite(frame.payload);
  if (!written.ok()) {
    closing_ = true;
    control_->OnWorkerGarbage(written.status());
    return Accept::kTaken;
  }
  if (!*written) return Accept::kLater;
  received_seq_ += header.count;
  unacked_bytes_ += frame.payload.size();
  port_->traffic().commands.Add(header.count);
  port_->traffic().command_bytes.Add(frame.payload.size());
  return Accept::kTaken;
}

Accept SessionChannel::OnMemory(const Frame& frame) {
  if (port_->rings() == nullptr) return Accept::kLater;
  // A client that asks and does not read its answers waits for itself.
  if (port_->Backlog() >= kMaxBacklog) return Accept::kLater;
  if (!control_->TryCountRequest()) {
    return Refuse(absl::InvalidArgumentError("too many memory requests under way"));
  }
  port_->traffic().memory_requests.Add(1);
  if (frame.kind == kMemoryRequest) {
    MemoryRequest request;
    if (!Parse(frame, &request)) {
      return Refuse(absl::InvalidArgumentError("malformed MemoryRequest"));
    }
    control_->OnMemoryRequest(std::move(request));
  } else {
    MemoryReturn request;
    if (!Parse(frame, &request)) {
      return Refuse(absl::InvalidArgumentError("malformed MemoryReturn"));
    }
    control_->OnMemoryReturn(std::move(request));
  }
  return Accept::kTaken;
}

Accept SessionChannel::OnReadBack(const Frame& frame) {
  if (port_->Backlog() >= kMaxBacklog) return Accept::kLater;
  ReadBack request;
  if (!Parse(frame, &request) || request.bytes() == 0 || request.bytes() > kMaxReadBack) {
    return Refuse(absl::InvalidArgumentError("malformed ReadBack"));
  }
  if (port_->rings() == nullptr || !control_->TryCountRequest()) {
    return Refuse(absl::InvalidArgumentError("a ReadBack out of place"));
  }
  control_->OnReadMemory(std::move(request));
  return Accept::kTaken;
}

bool SessionChannel::AckDue() const {
  return unacked_bytes_ >= options_.ack_bytes ||
         received_seq_ - acked_seq_ >= options_.ack_commands;
}

void SessionChannel::FillReceived(Frame* frame) {
  const ReceivedBody body = {received_seq_};
  frame->kind = kReceived;
  frame->payload.assign(reinterpret_cast<const char*>(&body), sizeof(body));
  acked_seq_ = received_seq_;
  unacked_bytes_ = 0;
}

bool SessionChannel::NextReply(Frame* frame) {
  WorkerRings* const rings = port_->rings();
  if (rings == nullptr || ring_broken_) return false;
  const absl::StatusOr<bool> read = rings->TryRead(&frame->payload);
  if (!read.ok()) {
    ring_broken_ = true;
    control_->OnWorkerGarbage(read.status());
    return false;
  }
  if (!*read) return false;
  frame->kind = kReplies;
  port_->traffic().reply_bytes.Add(frame->payload.size());
  return true;
}

bool SessionChannel::NextFrame(Frame* frame) {
  // Read before the ring: what the worker wrote before it died must not be missed.
  const bool ending = port_->HasLast();
  bool found = true;
  if (AckDue()) {
    FillReceived(frame);
  } else if (!port_->Pop(frame) && !NextReply(frame)) {
    if (ending && port_->PopLast(frame)) {
      if (!port_->StaysOpen()) {
        closing_ = true;
        port_->Close(absl::OkStatus());
      }
    } else if (Clock::now() - last_activity_ < options_.idle) {
      found = false;
    } else if (received_seq_ != acked_seq_) {
      FillReceived(frame);
    } else {
      // The channel may park after this. Arming tells of a reply that came in between.
      WorkerRings* const rings = port_->rings();
      found = rings != nullptr && !ring_broken_ && !rings->ArmDoorbell() && NextReply(frame);
    }
  }
  if (!found) return false;
  last_activity_ = Clock::now();
  port_->traffic().frames_sent.Add(1);
  return true;
}

}  // namespace warpline
