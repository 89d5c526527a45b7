#include "tests/hostile/raw_client.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/process_identity.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "transport/registry/dial.h"

namespace warpline::hostile {
namespace {

constexpr size_t kMostUnread = 64 << 20;

// A lower bound of what a frame takes here.
size_t BytesOf(const Frame& frame) { return sizeof(Frame) + frame.payload.size(); }

}  // namespace

absl::StatusOr<std::unique_ptr<RawClient>> RawClient::Connect(const std::string& address,
                                                              const TlsFiles& tls) {
  std::unique_ptr<RawClient> client(new RawClient);
  absl::StatusOr<std::unique_ptr<Channel>> channel =
      Dial({.address = address, .tls = tls}, client.get(), ChannelOptions(), absl::Seconds(60));
  if (!channel.ok()) return channel.status();
  client->channel_ = *std::move(channel);
  return client;
}

RawClient::~RawClient() { channel_.reset(); }

void RawClient::Send(uint32_t kind, std::string payload) {
  {
    MutexLock lock(&mu_);
    // The queue is bounded, since the server may have stopped reading.
    while (out_.size() > 64 && !closed_) changed_.Wait(&mu_);
    if (closed_) return;
    out_.push_back({kind, std::move(payload)});
  }
  channel_->Wake();
}

void RawClient::Flush() {
  MutexLock lock(&mu_);
  while (!out_.empty() && !closed_) changed_.Wait(&mu_);
}

absl::StatusOr<std::string> RawClient::Expect(uint32_t kind, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    absl::StatusOr<Frame> frame = Next(deadline - absl::Now());
    if (!frame.ok()) return frame.status();
    if (frame->kind == kind) return std::move(frame->payload);
  }
}

absl::StatusOr<Frame> RawClient::Next(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (true) {
    if (!in_.empty()) {
      Frame frame = std::move(in_.front());
      in_.pop_front();
      in_bytes_ -= BytesOf(frame);
      return frame;
    }
    if (closed_) {
      absl::Status closed = absl::UnavailableError(close_status_.ToString());
      // Such as why the server refused the session (proto/refusal.h).
      close_status_.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
        closed.SetPayload(type, payload);
      });
      return closed;
    }
    if (absl::Now() > deadline) return absl::DeadlineExceededError("no such frame");
    changed_.WaitWithTimeout(&mu_, absl::Milliseconds(50));
  }
}

absl::StatusOr<int> RawClient::ExpectReply(uint64_t seq, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const auto payload = Expect(kReplies, deadline - absl::Now());
    if (!payload.ok()) return payload.status();
    for (ReplyReader reader(*payload); !reader.Done();) {
      const auto reply = reader.Next();
      if (!reply.ok()) return reply.status();
      ReplyBody body;
      if (reply->id != ReplyId::kReply || reply->seq != seq || reply->body.size() < sizeof(body)) {
        continue;
      }
      std::memcpy(&body, reply->body.data(), sizeof(body));
      return body.result;
    }
  }
}

absl::Status RawClient::Open(bool resumable) {
  Send(kHello, ValidHello(resumable));
  return Expect(kWelcome, absl::Seconds(60)).status();
}

bool RawClient::closed() {
  MutexLock lock(&mu_);
  return closed_;
}

std::optional<absl::Status> RawClient::end() {
  MutexLock lock(&mu_);
  return closed_ ? std::make_optional(close_status_) : std::nullopt;
}

void RawClient::StopReading() {
  MutexLock lock(&mu_);
  reading_ = false;
}

void RawClient::StartReading() {
  {
    MutexLock lock(&mu_);
    reading_ = true;
  }
  channel_->Wake();
}

void RawClient::Close() {
  Send(kClose, "");
  Flush();
  channel_->Close(absl::OkStatus());
}

bool RawClient::NextFrame(Frame* frame) {
  MutexLock lock(&mu_);
  if (out_.empty()) return false;
  *frame = std::move(out_.front());
  out_.pop_front();
  changed_.NotifyAll();
  return true;
}

Accept RawClient::OnFrame(Frame* frame) {
  MutexLock lock(&mu_);
  if (!reading_) return Accept::kLater;
  in_bytes_ += BytesOf(*frame);
  in_.push_back(std::move(*frame));
  while (in_bytes_ > kMostUnread) {
    in_bytes_ -= BytesOf(in_.front());
    in_.pop_front();
  }
  changed_.NotifyAll();
  return Accept::kTaken;
}

void RawClient::OnClosed(const absl::Status& status) {
  MutexLock lock(&mu_);
  closed_ = true;
  close_status_ = status;
  changed_.NotifyAll();
}

std::string ValidHello(bool resumable) {
  warpline_internal::Hello hello;
  hello.set_min_version(kProtocolVersion);
  hello.set_max_version(kProtocolVersion);
  hello.set_program("hostile");
  hello.set_pid(static_cast<uint32_t>(getpid()));
  hello.set_arena_base(0x300000000000);
  hello.set_arena_bytes(4ull << 30);
  // A process without an arena's addresses is taken for one that executes another program.
  static void* const arena = mmap(nullptr, hello.arena_bytes(), PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) std::perror("mmap");
  hello.mutable_initial_memory()->set_id(0);
  hello.mutable_initial_memory()->set_va(0x300000000000 + (2ull << 20));
  hello.mutable_initial_memory()->set_min_bytes(2ull << 20);
  hello.mutable_initial_memory()->set_want_bytes(4ull << 20);
  hello.set_driver_version(13000);
  if (const char* const path = getenv("WARPLINE_TOKEN_FILE"); path != nullptr) {
    std::ifstream file(path);
    hello.set_token(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  hello.set_features(resumable ? kFeatureResume : kFeatureNone);
  hello.set_start_time(ProcessStartTime(hello.pid()));
  hello.set_boot_id(BootId());
  hello.set_pid_namespace(PidNamespace());
  return hello.SerializeAsString();
}

}  // namespace warpline::hostile
