#include "client_stub/session/testing/fake_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_stub/session/testing/loopback_channel.h"
#include "proto/frames.h"

namespace warpline::stub {

FakeServer::FakeServer() = default;

Dialer FakeServer::MakeDialer() {
  return [this](const DialTarget&, ChannelHandler* handler,
                absl::Duration) -> absl::StatusOr<std::unique_ptr<Channel>> {
    return std::unique_ptr<Channel>(new LoopbackChannel(
        handler, [this](ClientLink* link, const Frame& frame) { OnFrame(link, frame); }));
  };
}

void FakeServer::OnLinkGone(ClientLink* link) {
  MutexLock lock(&mu_);
  if (link_ == link) link_ = nullptr;
}

void FakeServer::OnFrame(ClientLink* link, const Frame& frame) {
  {
    MutexLock lock(&mu_);
    if (frame.kind == kHello || frame.kind == kResume) cut_link_ = nullptr;
    if (link == cut_link_) return;
    link_ = link;
    if (frame.kind == kHello) {
      last_seq_ = 0;
      controls_ = 0;
      counted_.clear();
    }
    if (IsCountedControl(frame.kind)) ++controls_;
  }
  const int left = cut_after_.load();
  if (left >= 0 && frame.kind != kHello && frame.kind != kResume) {
    cut_after_.store(left - 1);
    // Frames that come now are lost with the connection.
    if (left == 0) {
      MutexLock lock(&mu_);
      if (IsCountedControl(frame.kind)) --controls_;
      link_ = nullptr;
      cut_link_ = link;
      return link->ServerClose(absl::UnavailableError("cut"));
    }
  }
  switch (frame.kind) {
    case kHello:
      return OnHello(frame);
    case kResume:
      return OnResume(frame);
    case kCommands:
      return OnCommands(frame);
    case kMemoryRequest:
      return OnMemoryRequest(frame);
    case kMemoryReturn: {
      warpline_internal::MemoryReturn message;
      message.ParseFromString(frame.payload);
      MutexLock lock(&mu_);
      granted_bytes_ -= message.bytes();
      returns_.push_back(message);
      return;
    }
    case kReadBack: {
      warpline_internal::ReadBack request;
      request.ParseFromString(frame.payload);
      warpline_internal::ReadBackDone done;
      done.set_id(request.id());
      if (on_read_back && on_read_back(request, &done)) {
        Send(kReadBackDone, done.SerializeAsString());
      }
      return;
    }
    case kClose:
      close_seen_.store(true);
      return;
    default:
      return;
  }
}

void FakeServer::OnHello(const Frame& frame) {
  warpline_internal::Hello hello;
  hello.ParseFromString(frame.payload);
  if (silent) return;
  if (admit) {
    if (const absl::Status status = admit(hello); !status.ok()) return Close(status);
  }
  warpline_internal::Welcome welcome;
  welcome.set_version(kProtocolVersion);
  welcome.set_session(7);
  welcome.set_secret("secret");
  welcome.set_features(kFeatureRefusals | (resumable ? kFeatureResume : kFeatureNone) |
                       (relays ? kFeatureRelays : kFeatureNone));
  auto* device = welcome.mutable_device();
  device->set_name("Fake device");
  device->set_uuid(std::string(16, 'u'));
  device->set_driver_version(13000);
  device->set_least_stream_priority(0);
  device->set_greatest_stream_priority(-5);
  device->set_pci_bus_id("0000:01:00.0");
  auto* attribute = device->add_attributes();
  attribute->set_id(16);
  attribute->set_value(132);
  welcome.set_quota_bytes(kQuota);
  welcome.set_window_bytes(8u << 20);
  welcome.set_window_commands(1u << 16);
  welcome.mutable_initial_memory()->set_va(hello.initial_memory().va());
  welcome.mutable_initial_memory()->set_bytes(hello.initial_memory().want_bytes());
  if (edit_welcome) edit_welcome(hello, &welcome);
  {
    MutexLock lock(&mu_);
    granted_bytes_ = welcome.initial_memory().bytes();
  }
  Send(kWelcome, welcome.SerializeAsString());
}

void FakeServer::OnResume(const Frame& frame) {
  warpline_internal::Resume resume;
  resume.ParseFromString(frame.payload);
  MutexLock lock(&mu_);
  if (refuse_resumes.fetch_sub(1) > 0) return link_->ServerClose(absl::UnavailableError("not yet"));
  if (redirect_resumes.fetch_sub(1) > 0) {
    link_->ToClient({kRedirect, redirect});
    return link_->ServerClose(absl::OkStatus());
  }
  if (!resumable || resume.session() != 7 || resume.secret() != "secret" ||
      resume.attempt() <= last_attempt_ || resume.received() > counted_.size()) {
    return link_->ServerClose(absl::PermissionDeniedError("the session cannot be resumed"));
  }
  last_attempt_ = resume.attempt();
  resumes_.fetch_add(1);
  const ResumedBody body = {last_seq_, controls_};
  link_->ToClient({kResumed, std::string(reinterpret_cast<const char*>(&body), sizeof(body))});
  for (size_t i = resume.received(); i < counted_.size(); ++i) link_->ToClient(counted_[i]);
}

void FakeServer::OnCommands(const Frame& frame) {
  CommandsHeader header;
  std::memcpy(&header, frame.payload.data(), sizeof(header));
  CommandReader reader(std::string_view(frame.payload).substr(sizeof(header)));
  std::string replies;
  MutexLock lock(&mu_);
  for (uint64_t i = 0; i < header.count && !reader.Done(); ++i) {
    const auto view = reader.Next();
    // Any mistake shows as a session that ends.
    if (!view.ok() || header.first_seq + i != last_seq_ + 1) {
      link_->ServerClose(absl::InvalidArgumentError("bad commands"));
      return;
    }
    ++last_seq_;
    Execute({last_seq_, view->id, std::string(view->body)}, &replies);
  }
  arrived_.NotifyAll();
  if (!hold_received_) Acknowledge();
  if (!hold_retired_) RetireAll(&replies);
  if (!replies.empty()) Deliver({kReplies, std::move(replies)});
}

void FakeServer::Execute(const Command& command, std::string* replies) {
  const CommandInfo& info = kCommandTable[static_cast<int>(command.id) - 1];
  uint64_t stream = 0;
  // Where a command has a stream, it is the first field, except in EventRecord.
  if (info.executor == ExecutorKind::kStream) {
    std::memcpy(&stream, command.body.data() + (command.id == CommandId::kEventRecord ? 8 : 0), 8);
  }
  unretired_[stream] = command.seq;
  if (on_command && on_command(command, replies)) {
  } else if (command.id == CommandId::kFreeFence) {
    uint64_t token;
    std::memcpy(&token, command.body.data(), sizeof(token));
    fences_.push_back(token);
  } else if (command.id == CommandId::kCopyFromDevice) {
    cmd::CopyFromDevice copy;
    std::memcpy(&copy, command.body.data(), sizeof(copy));
    for (uint64_t offset = 0; offset < copy.bytes; offset += 100000) {
      std::string data(std::min<uint64_t>(100000, copy.bytes - offset), '\0');
      for (size_t i = 0; i < data.size(); ++i) data[i] = DeviceByte(copy.src + offset + i);
      AppendNotice(ReplyId::kCopyData, command.seq, notice::CopyData{offset}, data, replies);
      if (replies->size() < 800000) continue;
      Deliver({kReplies, std::exchange(*replies, std::string())});
    }
    AppendReply(command.seq, 0, {}, {}, replies);
  } else if (info.effect == Effect::kRoundTrip) {
    AppendReply(command.seq, 0, "fields", {}, replies);
  }
  if (record_commands) commands_.push_back(command);
}

void FakeServer::RetireAll(std::string* replies) {
  for (const uint64_t token : std::exchange(fences_, {})) {
    AppendNotice(ReplyId::kFreed, 0, notice::Freed{token}, {}, replies);
  }
  for (const auto& [stream, seq] : std::exchange(unretired_, {})) {
    AppendNotice(ReplyId::kRetired, seq, notice::Retired{stream, last_seq_}, {}, replies);
  }
}

void FakeServer::Acknowledge() {
  const ReceivedBody body = {last_seq_, controls_};
  Deliver({kReceived, std::string(reinterpret_cast<const char*>(&body), sizeof(body))});
}

void FakeServer::OnMemoryRequest(const Frame& frame) {
  warpline_internal::MemoryRequest request;
  request.ParseFromString(frame.payload);
  MutexLock lock(&mu_);
  requests_.push_back(request);
  if (hold_memory) return;
  warpline_internal::MemoryGrant grant;
  grant.set_id(request.id());
  grant.set_va(request.va());
  const uint64_t left = kQuota - granted_bytes_;
  const uint64_t bytes = std::min<uint64_t>(request.want_bytes(), left);
  if (bytes < request.min_bytes()) {
    grant.set_error(static_cast<int>(CudaResult::kOutOfMemory));
    grant.set_message(absl::StrCat("quota of ", kQuota, " bytes: ", granted_bytes_, " in use, ",
                                   request.min_bytes(), " wanted"));
  } else {
    grant.set_bytes(bytes);
    granted_bytes_ += bytes;
  }
  Deliver({kMemoryGrant, grant.SerializeAsString()});
}

void FakeServer::HoldReceived(bool hold) {
  MutexLock lock(&mu_);
  hold_received_ = hold;
  if (!hold && last_seq_ > 0) Acknowledge();
}

void FakeServer::HoldRetired(bool hold) {
  MutexLock lock(&mu_);
  hold_retired_ = hold;
  std::string replies;
  if (!hold) RetireAll(&replies);
  if (!replies.empty()) Deliver({kReplies, std::move(replies)});
}

void FakeServer::Deliver(Frame frame) {
  if (resumable && IsCountedToClient(frame.kind)) counted_.push_back(frame);
  if (link_ != nullptr) link_->ToClient(std::move(frame));
}

void FakeServer::Send(uint32_t kind, std::string payload) {
  MutexLock lock(&mu_);
  Deliver({kind, std::move(payload)});
}

void FakeServer::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (link_ != nullptr) link_->ServerClose(status);
}

std::vector<FakeServer::Command> FakeServer::commands() const {
  MutexLock lock(&mu_);
  return commands_;
}

std::vector<warpline_internal::MemoryRequest> FakeServer::memory_requests() const {
  MutexLock lock(&mu_);
  return requests_;
}

std::vector<warpline_internal::MemoryReturn> FakeServer::memory_returns() const {
  MutexLock lock(&mu_);
  return returns_;
}

void FakeServer::AwaitCommand(uint64_t seq) const {
  MutexLock lock(&mu_);
  while (last_seq_ < seq) arrived_.Wait(&mu_);
}

}  // namespace warpline::stub
