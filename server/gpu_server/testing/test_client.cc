#include "server/gpu_server/testing/test_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpline::server {

void TestClient::Connected(std::unique_ptr<Channel> channel) {
  channel_ = std::move(channel);
  channel_->Wake();
}

void TestClient::Disconnect() { channel_.reset(); }

void TestClient::Send(uint32_t kind, std::string payload) {
  {
    MutexLock lock(&mu_);
    to_send_.push_back(Frame{kind, std::move(payload)});
  }
  if (channel_ != nullptr) channel_->Wake();
}

void TestClient::SendCommands(const std::string& body, uint32_t count) {
  const CommandsHeader header = {next_seq_, count, acked_};
  next_seq_ += count;
  std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
  payload += body;
  payload.resize(std::max(payload.size(), sizeof(header) + size_t{8} * count));
  Send(kCommands, std::move(payload));
}

std::optional<std::string> TestClient::Await(uint32_t kind) {
  MutexLock lock(&mu_);
  while (true) {
    while (!received_.empty()) {
      Frame frame = std::move(received_.front());
      received_.pop_front();
      if (frame.kind == kind) return std::move(frame.payload);
    }
    if (closed_.has_value()) return std::nullopt;
    changed_.Wait(&mu_);
  }
}

std::map<uint32_t, std::string> TestClient::AwaitEach(std::set<uint32_t> kinds) {
  std::map<uint32_t, std::string> found;
  MutexLock lock(&mu_);
  while (true) {
    while (!received_.empty()) {
      Frame frame = std::move(received_.front());
      received_.pop_front();
      if (kinds.erase(frame.kind) > 0) found[frame.kind] = std::move(frame.payload);
      if (kinds.empty()) return found;
    }
    if (closed_.has_value()) return found;
    changed_.Wait(&mu_);
  }
}

absl::Status TestClient::AwaitClosed() {
  MutexLock lock(&mu_);
  while (!closed_.has_value()) changed_.Wait(&mu_);
  return *closed_;
}

void TestClient::AwaitReceived(uint64_t seq) {
  MutexLock lock(&mu_);
  while (received_seq_ < seq && !closed_.has_value()) changed_.Wait(&mu_);
}

warpline_internal::Hello TestClient::GoodHello() {
  warpline_internal::Hello hello;
  hello.set_min_version(1);
  hello.set_max_version(1);
  hello.set_program("test");
  hello.set_arena_base(kArena);
  hello.set_arena_bytes(4ull << 30);
  return hello;
}

std::optional<warpline_internal::Welcome> TestClient::Open(const warpline_internal::Hello& hello) {
  SendMessage(kHello, hello);
  const auto payload = Await(kWelcome);
  warpline_internal::Welcome welcome;
  if (!payload.has_value() || !welcome.ParseFromString(*payload)) return std::nullopt;
  return welcome;
}

std::optional<ResumedBody> TestClient::Resume(const warpline_internal::Welcome& welcome,
                                              uint64_t attempt, uint64_t received) {
  warpline_internal::Resume resume;
  resume.set_session(welcome.session());
  resume.set_secret(welcome.secret());
  resume.set_attempt(attempt);
  resume.set_received(received);
  SendMessage(kResume, resume);
  const auto payload = Await(kResumed);
  ResumedBody body;
  if (!payload.has_value() || payload->size() != sizeof(body)) return std::nullopt;
  std::memcpy(&body, payload->data(), sizeof(body));
  next_seq_ = body.seq + 1;
  acked_ = static_cast<uint32_t>(received);
  return body;
}

std::optional<warpline_internal::MemoryGrant> TestClient::RequestMemory(uint64_t va,
                                                                        uint64_t min_bytes,
                                                                        uint64_t want_bytes) {
  warpline_internal::MemoryRequest request;
  request.set_id(va);
  request.set_va(va);
  request.set_min_bytes(min_bytes);
  request.set_want_bytes(want_bytes);
  SendMessage(kMemoryRequest, request);
  const auto payload = Await(kMemoryGrant);
  warpline_internal::MemoryGrant grant;
  if (!payload.has_value() || !grant.ParseFromString(*payload)) return std::nullopt;
  return grant;
}

bool TestClient::NextFrame(Frame* frame) {
  MutexLock lock(&mu_);
  if (to_send_.empty()) return false;
  *frame = std::move(to_send_.front());
  to_send_.pop_front();
  return true;
}

Accept TestClient::OnFrame(Frame* frame) {
  MutexLock lock(&mu_);
  if (frame->kind == kReceived && frame->payload.size() == sizeof(ReceivedBody)) {
    std::memcpy(&received_seq_, frame->payload.data(), sizeof(received_seq_));
  }
  received_.push_back(std::move(*frame));
  changed_.NotifyAll();
  return Accept::kTaken;
}

void TestClient::OnClosed(const absl::Status& status) {
  MutexLock lock(&mu_);
  closed_ = status;
  changed_.NotifyAll();
}

}  // namespace warpline::server
