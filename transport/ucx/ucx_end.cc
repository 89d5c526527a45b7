#include "transport/ucx/ucx_end.h"

#include <poll.h>
#include <sched.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/status_packet.h"
#include "transport/ucx/ucx_device.h"
#include "transport/ucx/ucx_library.h"

namespace warpline {

using ucx_internal::UcxWorker;

namespace {

// What a message is.
enum What : uint32_t {
  kHello = 1,  // The first one of who connects: the address of its worker.
  kTaken = 2,  // Only what every message says: how much was taken.
  kFrame = 3,
  kEnd = 4,  // The last one: a status.
};

// What an end may have sent that the other has not taken.
constexpr uint64_t kWindow = 8u << 20;
// What a frame costs of the window beyond its bytes.
constexpr uint64_t kFrameCost = 256;
// The other end hears of what was taken when it is as much as this, or with the next frame.
constexpr uint64_t kTellAfter = kWindow / 4;
// Messages that are under way in UCX at a time.
constexpr size_t kMostUnsent = 64;

// How long an end that is destroyed waits for its last messages to leave.
constexpr absl::Duration kLastWords = absl::Seconds(1);

uint64_t CostOf(size_t bytes) { return bytes + kFrameCost; }

}  // namespace

UcxEnd::UcxEnd(UniqueFd bell, const std::string& secret) : bell_(std::move(bell)) {
  std::memcpy(token_, secret.data(), sizeof(token_));
}

absl::StatusOr<std::unique_ptr<UcxEnd>> UcxEnd::Listen(const std::string& peer,
                                                       const std::string& port_range,
                                                       const std::string& secret,
                                                       const UcxTransports& transports) {
  if (secret.size() != kUcxSecretBytes) {
    return absl::InvalidArgumentError("a UCX connection needs a secret of 16 bytes");
  }
  const auto device = ucx_internal::DeviceTowards(peer);
  if (!device.ok()) return device.status();
  auto bell = LoopBell::NewFd();
  if (!bell.ok()) return bell.status();
  std::unique_ptr<UcxEnd> end(new UcxEnd(*std::move(bell), secret));
  auto worker = UcxWorker::Create({.device = device->name,
                                   .ip = device->address,
                                   .port_range = port_range,
                                   .transports = transports},
                                  end.get());
  if (!worker.ok()) return worker.status();
  end->address_ = {device->address, (*worker)->address()};
  end->worker_ = *std::move(worker);
  return end;
}

absl::Status UcxEnd::Load() { return ucx_internal::UcxLibrary::Get().status(); }

absl::Status UcxEnd::CheckTransports(const UcxTransports& transports) {
  return UcxWorker::CheckTransports(transports);
}

absl::StatusOr<std::unique_ptr<UcxEnd>> UcxEnd::Connect(const UcxAddress& address,
                                                        const std::string& secret, absl::Time until,
                                                        const UcxTransports& transports) {
  auto created = Listen(address.ip, "", secret, transports);
  if (!created.ok()) return created.status();
  UcxEnd& end = **created;
  const LoopScope scope(&channel_loop);
  // The relay answers on the connection that this end makes: nobody connects to it.
  const absl::Status closed = end.worker_->CloseDoor();
  if (!closed.ok()) return closed;
  const absl::Status connected = end.worker_->Connect(address.worker);
  if (!connected.ok()) return connected;
  end.Say(kHello, 0, {.payload = end.address_.worker});
  while (!end.answered_ && !end.broken_.has_value()) {
    if (absl::Now() >= until) {
      return absl::UnavailableError(absl::StrCat("nobody answers over UCX at ", address.ip));
    }
    end.worker_->Progress();
    sched_yield();
  }
  if (end.broken_.has_value()) return *end.broken_;
  if (end.ended_.has_value() && !end.ended_->ok()) return *end.ended_;
  return created;
}

absl::Status UcxEnd::AwaitPeer(absl::Time until) {
  while (true) {
    worker_->Progress();
    if (broken_.has_value()) return *broken_;
    if (worker_->connected()) return worker_->CloseDoor();
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::UnavailableError("nobody has connected");
    BeginSleep();
    Sleep(absl::ToChronoNanoseconds(left));
    EndSleep();
  }
}

void UcxEnd::Welcome() { Say(kTaken, 0, {}); }

UcxEnd::~UcxEnd() {
  const LoopScope scope(&channel_loop);
  if (worker_ == nullptr) return;
  const absl::Time until = absl::Now() + kLastWords;
  while (!broken_.has_value() && worker_->unsent() > 0 && absl::Now() < until) {
    worker_->Progress();
    sched_yield();
  }
  worker_.reset();
}

void UcxEnd::Say(uint32_t what, uint32_t kind, Frame payload) {
  told_ = taken_;
  worker_->Send({{token_[0], token_[1]}, what, kind, taken_}, std::move(payload));
}

void UcxEnd::BreakWith(const absl::Status& why) {
  if (!broken_.has_value()) broken_ = why;
}

void UcxEnd::OnLost(const absl::Status& why) {
  due_.store(true, std::memory_order_relaxed);
  BreakWith(why);
}

void UcxEnd::OnMessage(const MessageHeader& header, std::string_view payload) {
  due_.store(true, std::memory_order_relaxed);
  // In constant time.
  if (((header.token[0] ^ token_[0]) | (header.token[1] ^ token_[1])) != 0) return;
  if (header.what == kHello) return OnHello(payload);
  if (!worker_->connected() || ended_.has_value() || broken_.has_value()) return;
  answered_ = true;
  OnTaken(header.taken);
  switch (header.what) {
    case kTaken:
      return;
    case kFrame:
      return OnFrame(header.kind, payload);
    case kEnd: {
      absl::Status status;
      if (!DecodeStatus(payload, &status)) {
        return BreakWith(absl::InvalidArgumentError("an end that is no status"));
      }
      ended_ = status;
      return;
    }
    default:
      return BreakWith(absl::InvalidArgumentError("a message of no known kind"));
  }
}

void UcxEnd::OnHello(std::string_view payload) {
  // There is one peer, and it connects once.
  if (worker_->connected() || broken_.has_value()) return;
  const absl::Status connected = worker_->Connect(std::string(payload));
  if (!connected.ok()) BreakWith(connected);
}

void UcxEnd::OnFrame(uint32_t kind, std::string_view payload) {
  if (payload.size() > kMaxFramePayload) {
    return BreakWith(absl::InvalidArgumentError(
        absl::StrCat("frame of ", payload.size(), " bytes is above the size limit")));
  }
  got_ += CostOf(payload.size());
  if (got_ - taken_ > kWindow) {
    return BreakWith(absl::InvalidArgumentError("more frames than the window takes"));
  }
  received_.push_back({.kind = kind, .payload = std::string(payload)});
}

void UcxEnd::OnTaken(uint64_t taken) {
  if (taken < sent_taken_ || taken > sent_) {
    return BreakWith(absl::InvalidArgumentError("more was taken than was sent"));
  }
  sent_taken_ = taken;
}

LinkEnd::Taken UcxEnd::Take(Frame* frame, absl::Status* why) {
  if (received_.empty() && !ended_.has_value() && !broken_.has_value()) worker_->Progress();
  if (!received_.empty()) {
    *frame = std::move(received_.front());
    received_.pop_front();
    taken_ += CostOf(frame->payload.size());
    if (taken_ - told_ >= kTellAfter) Say(kTaken, 0, {});
    return Taken::kFrame;
  }
  if (ended_.has_value()) {
    *why = *ended_;
    return Taken::kEnd;
  }
  if (!broken_.has_value()) return Taken::kNothing;
  *why = *broken_;
  return Taken::kBroken;
}

bool UcxEnd::HasRoom() {
  if (!worker_->connected() || broken_.has_value()) return false;
  const auto has_room = [this]() RUNS_ON(channel_loop) {
    return worker_->unsent() < kMostUnsent &&
           sent_ + CostOf(kMaxFramePayload) - sent_taken_ <= kWindow;
  };
  if (has_room()) return true;
  // Nobody takes frames while one is held that the handler has no room for.
  worker_->Progress();
  return has_room();
}

void UcxEnd::Put(Frame frame) {
  sent_ += CostOf(frame.bytes().size());
  const uint32_t kind = frame.kind;
  Say(kFrame, kind, std::move(frame));
}

void UcxEnd::PutEnd(const absl::Status& status) { Say(kEnd, 0, {.payload = EncodeStatus(status)}); }

void UcxEnd::Break() {
  BreakWith(absl::CancelledError("the connection was broken off"));
  worker_->Disconnect();
}

void UcxEnd::BeginSleep() {
  bell_.Announce();
  rung_ = false;
  due_.store(false);
  if (worker_->Progress() || !received_.empty() || !worker_->Arm()) due_.store(true);
}

void UcxEnd::Sleep(std::optional<std::chrono::nanoseconds> at_most) {
  if (due_.load()) return;
  pollfd fds[] = {{.fd = bell_.fd(), .events = POLLIN, .revents = 0},
                  {.fd = worker_->fd(), .events = POLLIN, .revents = 0}};
  timespec timeout;
  if (at_most.has_value()) timeout = absl::ToTimespec(absl::FromChrono(*at_most));
  if (ppoll(fds, 2, at_most.has_value() ? &timeout : nullptr, nullptr) <= 0) return;
  rung_ = fds[0].revents != 0;
}

}  // namespace warpline
