#include "server/gpu_server/session/connection/session_channel.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline::server {
namespace {

using warpline_internal::Hello;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ReadBack;

// Control messages are small; a large one is an attack on the parser.
constexpr size_t kMaxControlPayload = 64u << 10;
// The smallest command is its header.
constexpr size_t kMinCommandBytes = 8;

template <typename Message>
bool Parse(const Frame& frame, Message* message) {
  return frame.payload.size() <= kMaxControlPayload && message->ParseFromString(frame.payload);
}

}  // namespace

void SessionChannel::Started(Channel* channel) {
  channel_ = channel;
  guard_->Watch(channel);
}

void SessionChannel::OnClosed(const absl::Status& status) {
  guard_->Release();
  if (bulk_ != nullptr) bulk_->OnClosed();
  if (move_ != nullptr) move_->OnClosed(status);
  if (port_ == nullptr) return;
  port_->Detach(channel_);
  control_->OnChannelClosed(status);
}

Accept SessionChannel::Refuse(const absl::Status& status) {
  if (!closing_) {
    closing_ = true;
    if (control_ != nullptr) {
      control_->OnProtocolError(status);
    } else {
      directory_->OnStrangersError(peer_, status);
    }
    channel_->Close(status);
  }
  return Accept::kTaken;
}

Accept SessionChannel::OnFrame(Frame* frame) {
  if (closing_) return Accept::kTaken;
  if (bulk_ != nullptr) return bulk_->OnFrame(frame);
  if (move_ != nullptr) return move_->OnFrame(frame);
  if (port_ == nullptr) {
    OnFirst(*frame);
    return Accept::kTaken;
  }
  if (!HoldsLink()) return Accept::kLater;
  const Accept accept = Dispatch(frame);
  if (accept == Accept::kTaken) {
    last_activity_ = Clock::now();
    port_->traffic().frames_received.Add(1);
  }
  return accept;
}

void SessionChannel::OnFirst(const Frame& frame) {
  guard_->Release();
  if (frame.kind == kHello) {
    OnHello(frame);
  } else if (frame.kind == kResume) {
    OnResume(frame);
  } else if (frame.kind == kBulkHello) {
    OnBulkHello(frame);
  } else if (frame.kind == kMove) {
    OnMove(frame);
  } else {
    Refuse(absl::InvalidArgumentError(
        "the first frame of a channel must be Hello, Resume, BulkHello or Move"));
  }
  if (port_ != nullptr) port_->traffic().frames_received.Add(1);
  last_activity_ = Clock::now();
}

void SessionChannel::OnHello(const Frame& frame) {
  Hello hello;
  if (!Parse(frame, &hello)) {
    Refuse(absl::InvalidArgumentError("malformed Hello"));
    return;
  }
  absl::StatusOr<SessionSides> session = directory_->Create(peer_, hello);
  if (!session.ok()) {
    closing_ = true;
    channel_->Close(session.status());
    return;
  }
  if (session->redirect.has_value()) return SendTo(*session->redirect);
  if (!session->port->Attach(channel_)) {
    closing_ = true;
    channel_->Close(absl::UnavailableError("the server is shutting down"));
    return;
  }
  channel_->Admit();
  port_ = std::move(session->port);
  control_ = std::move(session->control);
  control_->OnHello(std::move(hello));
}

void SessionChannel::OnResume(const Frame& frame) {
  warpline_internal::Resume resume;
  if (!Parse(frame, &resume)) {
    Refuse(absl::InvalidArgumentError("malformed Resume"));
    return;
  }
  absl::StatusOr<SessionSides> session = directory_->Find(peer_, resume.session(), resume.secret());
  if (!session.ok()) {
    closing_ = true;
    channel_->Close(session.status());
    return;
  }
  if (session->redirect.has_value()) return SendTo(*session->redirect);
  resumes_ = true;
  client_has_ = resume.received();
  const SessionPort::Follows follows = session->port->Follow(channel_, resume.attempt());
  if (follows == SessionPort::Follows::kAway) {
    closing_ = true;
    channel_->Close(absl::UnavailableError("the session goes on once a server has it again"));
    return;
  }
  if (follows == SessionPort::Follows::kRefused) {
    closing_ = true;
    channel_->Close(absl::PermissionDeniedError("the session cannot be resumed"));
    return;
  }
  channel_->Admit();
  moved_ = follows == SessionPort::Follows::kAnother;
  port_ = std::move(session->port);
  control_ = std::move(session->control);
}

void SessionChannel::OnBulkHello(const Frame& frame) {
  warpline_internal::BulkHello hello;
  if (!Parse(frame, &hello) || hello.slot() >= kMaxBulkConnections) {
    Refuse(absl::InvalidArgumentError("malformed BulkHello"));
    return;
  }
  absl::StatusOr<SessionSides> session = directory_->Find(peer_, hello.session(), hello.secret());
  const bool elsewhere = session.ok() && session->redirect.has_value();
  if (elsewhere || (session.ok() && !session->bulk->Attach(hello.slot(), channel_))) {
    session = absl::PermissionDeniedError("the session is over here");
  }
  if (!session.ok()) {
    closing_ = true;
    channel_->Close(session.status());
    return;
  }
  channel_->Admit();
  bulk_ = std::make_unique<BulkChannel>(
      session->bulk, hello.slot(), channel_,
      BulkChannel::Events{
          [control = session->control](uint32_t slot,
                                       warpline_internal::HostMemoryRequest request) {
            control->OnBulkMemory(slot, std::move(request));
          },
          [port = session->port](uint64_t bytes) { port->traffic().bulk_bytes.Add(bytes); },
          [control = session->control](const absl::Status& status) {
            control->OnProtocolError(status);
          }});
}

void SessionChannel::OnMove(const Frame& frame) {
  warpline_internal::MoveHello hello;
  if (!Parse(frame, &hello)) {
    Refuse(absl::InvalidArgumentError("malformed MoveHello"));
    return;
  }
  auto pipe = std::make_shared<MovePipe>();
  move_ = std::make_unique<MoveChannel>(pipe, channel_);
  const absl::Status taken = directory_->TakeMove(peer_, hello, std::move(pipe));
  if (taken.ok()) return channel_->Admit();
  closing_ = true;
  channel_->Close(taken);
}

void SessionChannel::SendTo(const warpline_internal::Redirect& redirect) {
  redirect_ = {kRedirect, redirect.SerializeAsString()};
  closing_ = true;
  channel_->Close(absl::OkStatus());
}

bool SessionChannel::HoldsLink() {
  if (holds_link_) return true;
  if (port_ == nullptr || !port_->Holds(channel_)) return false;
  holds_link_ = true;
  if (!resumes_) return true;
  SessionLink& link = port_->link();
  const absl::Status rewound = link.Rewind(client_has_);
  if (!rewound.ok()) {
    Refuse(rewound);
    return true;
  }
  resumed_due_ = true;
  return true;
}

Accept SessionChannel::Dispatch(Frame* frame) {
  if (closing_) return Accept::kTaken;
  switch (frame->kind) {
    case kCommands:
      return OnCommands(frame);
    case kMemoryRequest:
    case kMemoryReturn:
      return OnMemory(*frame);
    case kAck:
      return OnAck(*frame);
    case kReadBack:
      return OnReadBack(*frame);
    case kRelayAsk:
      if (port_->Backlog() >= kMaxBacklog) return Accept::kLater;
      if (!control_->TryCountRequest()) return Accept::kLater;
      control_->OnRelayAsk();
      return Accept::kTaken;
    case kClose:
      closing_ = true;
      channel_->Close(absl::OkStatus());
      return Accept::kTaken;
    case kHello:
    case kResume:
      return Refuse(absl::InvalidArgumentError("a second first frame"));
    default:
      return Refuse(absl::InvalidArgumentError(absl::StrCat("unknown frame kind ", frame->kind)));
  }
}

Accept SessionChannel::OnAck(const Frame& frame) {
  AckBody body;
  if (frame.payload.size() != sizeof(body)) {
    return Refuse(absl::InvalidArgumentError("malformed acknowledgement"));
  }
  std::memcpy(&body, frame.payload.data(), sizeof(body));
  const absl::Status status = port_->link().OnAck(body.frames);
  return status.ok() ? Accept::kTaken : Refuse(status);
}

Accept SessionChannel::OnCommands(Frame* frame) {
  WorkerRings* const rings = port_->rings();
  if (rings == nullptr) return Accept::kLater;  // The worker is still starting.
  SessionLink& link = port_->link();
  CommandsHeader header;
  if (frame->payload.size() < sizeof(header) || frame->payload.size() > kMaxCommandsPayload) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("a commands frame of ", frame->payload.size(), " bytes")));
  }
  std::memcpy(&header, frame->payload.data(), sizeof(header));
  if (header.first_seq != link.received_seq() + 1) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        "commands start with ", header.first_seq, " where ", link.received_seq() + 1, " was due")));
  }
  const size_t body = frame->payload.size() - sizeof(header);
  if (header.count == 0 || header.count > body / kMinCommandBytes) {
    return Refuse(
        absl::InvalidArgumentError(absl::StrCat(header.count, " commands in ", body, " bytes")));
  }
  if (const absl::Status acked = link.OnShortAck(header.acked); !acked.ok()) return Refuse(acked);
  if (port_->faulted()) {  // Of no use any more, but counted.
    link.OnCommands(header.count);
    return Accept::kTaken;
  }
  if (const CommandWindow* const window = port_->window(); window != nullptr) {
    if (header.count > window->most()) {
      return Refuse(absl::ResourceExhaustedError(
          absl::StrCat("a frame of ", header.count, " commands, where the session's lease allows ",
                       window->most(), " in flight")));
    }
    // A client that keeps to its window has room. Others wait for what they have sent.
    if (!window->HasRoom(link.received_seq(), header.count)) return Accept::kLater;
  }
  // What is acknowledged is between us and the client.
  constexpr uint32_t kNone = 0;
  char* const acked_field = frame->payload.data() + offsetof(CommandsHeader, acked);
  std::memcpy(acked_field, &kNone, sizeof(kNone));
  const absl::StatusOr<bool> written = rings->TryWrite(frame->payload);
  if (!written.ok()) {
    closing_ = true;
    control_->OnWorkerGarbage(written.status());
    return Accept::kTaken;
  }
  if (!*written) {
    std::memcpy(acked_field, &header.acked, sizeof(header.acked));
    if (port_->TakeAskedAboutWaiting()) control_->OnCommandsWait();
    return Accept::kLater;
  }
  link.OnCommands(header.count);
  unacked_bytes_ += frame->payload.size();
  port_->traffic().commands.Add(header.count);
  port_->traffic().command_bytes.Add(frame->payload.size());
  return Accept::kTaken;
}

Accept SessionChannel::OnMemory(const Frame& frame) {
  if (port_->rings() == nullptr) return Accept::kLater;
  // A client that asks and does not read its answers waits for itself.
  if (port_->Backlog() >= kMaxBacklog) return Accept::kLater;
  if (port_->faulted()) {  // Of no use any more, but counted.
    port_->link().OnControl();
    return Accept::kTaken;
  }
  // However fast a client frees, it does not know how far the server is: it waits.
  if (!control_->TryCountRequest()) return Accept::kLater;
  port_->link().OnControl();
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
  if (port_->rings() == nullptr) return Accept::kLater;  // Its welcome is on the way.
  if (!control_->TryCountRequest()) return Accept::kLater;
  control_->OnReadMemory(std::move(request));
  return Accept::kTaken;
}

bool SessionChannel::AckDue() const {
  return unacked_bytes_ >= options_.ack_bytes ||
         port_->link().received_seq() - acked_seq_ >= options_.ack_commands;
}

void SessionChannel::FillReceived(Frame* frame) {
  const SessionLink& link = port_->link();
  const ReceivedBody body = {link.received_seq(), link.received_controls()};
  frame->kind = resumed_due_ ? kResumed : kReceived;
  frame->payload.assign(reinterpret_cast<const char*>(&body), sizeof(body));
  resumed_due_ = false;
  acked_seq_ = body.seq;
  acked_controls_ = body.controls;
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

// What the session itself has for the client: counted frames, and the welcome.
bool SessionChannel::NextOfSession(Frame* frame) {
  SessionLink& link = port_->link();
  // Read before the ring: what the worker wrote before it died must not be missed.
  const bool ending = port_->HasLast();
  if (link.NextAgain(frame)) {
    port_->traffic().frames_again.Add(1);
  } else {
    if (!link.HasRoom()) return false;
    if (!port_->Pop(frame) && !NextReply(frame) && !(ending && port_->PopLast(frame))) return false;
    if (IsCountedToClient(frame->kind)) link.OnSend(frame);
  }
  if (frame->kind == kFault && !port_->StaysOpen()) {
    closing_ = true;
    channel_->Close(absl::OkStatus());
  }
  return true;
}

bool SessionChannel::NextFrame(Frame* frame) {
  if (bulk_ != nullptr) return bulk_->NextFrame(frame);
  if (move_ != nullptr) return move_->NextFrame(frame);
  frame->shared = nullptr;
  if (redirect_.has_value()) {
    *frame = *std::exchange(redirect_, std::nullopt);
    return true;
  }
  if (!HoldsLink()) return false;
  bool found = true;
  if (resumed_due_) {
    FillReceived(frame);
    control_->OnResumed(moved_);
  } else if (AckDue()) {
    FillReceived(frame);
  } else if (!NextOfSession(frame)) {
    if (Clock::now() - last_activity_ < options_.idle) {
      found = false;
    } else if (port_->link().received_seq() != acked_seq_ ||
               port_->link().received_controls() != acked_controls_) {
      FillReceived(frame);
    } else {
      // The channel may park after this. Arming tells of a reply that came in between. While the
      // client acknowledges nothing there is nothing to be told of: its next frame wakes.
      WorkerRings* const rings = port_->rings();
      found = rings != nullptr && !ring_broken_ && port_->link().HasRoom() &&
              !rings->ArmDoorbell() && NextOfSession(frame);
    }
  }
  if (!found) return false;
  last_activity_ = Clock::now();
  port_->traffic().frames_sent.Add(1);
  return true;
}

}  // namespace warpline::server
