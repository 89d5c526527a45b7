#include "client_stub/session/bulk/channel_bulk_link.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/session/bulk/slot_memory.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

void Fill(const BulkHeader& header, std::string_view tail, std::string* payload) {
  payload->reserve(sizeof(header) + tail.size());
  payload->assign(reinterpret_cast<const char*>(&header), sizeof(header));
  payload->append(tail);
}

}  // namespace

void ChannelBulkLink::Push(Frame frame) {
  frames_.push_back(std::move(frame));
  has_frames_.store(true, std::memory_order_release);
  if (live_ != nullptr) live_->Wake();
}

ChannelBulkLink::ChannelBulkLink(uint32_t slot, uint64_t va, DialTarget target, Dialer dialer,
                                 BulkIdentity identity)
    : slot_(slot),
      va_(va),
      target_(std::move(target)),
      dialer_(std::move(dialer)),
      identity_(std::move(identity)) {}

absl::Status ChannelBulkLink::Connect(absl::Duration deadline) {
  Disconnect();
  const absl::Time end = absl::Now() + deadline;
  {
    MutexLock lock(&mu_);
    if (stopped_) return absl::CancelledError("the session ends");
    warpline_internal::BulkHello hello;
    hello.set_session(identity_.session);
    hello.set_secret(identity_.secret);
    hello.set_slot(slot_);
    closed_ = ready_ = false;
    Push({kBulkHello, hello.SerializeAsString()});
  }
  auto dialed = dialer_(target_, this, deadline);
  if (!dialed.ok()) return dialed.status();
  channel_ = *std::move(dialed);
  {
    MutexLock lock(&mu_);
    if (!closed_) live_ = channel_.get();
  }
  absl::Status status = AwaitReady(end);
  if (status.ok()) status = AskForMemory(absl::Now() + kMemoryPatience);
  if (!status.ok()) {
    Disconnect();
    return status;
  }
  up_.store(true, std::memory_order_release);
  MutexLock lock(&mu_);
  // It may be over by now.
  if (closed_) up_.store(false, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ChannelBulkLink::AwaitReady(absl::Time deadline) {
  MutexLock lock(&mu_);
  while (!ready_ && !closed_ && !stopped_ && absl::Now() < deadline) {
    changed_.WaitWithTimeout(&mu_, deadline - absl::Now());
  }
  if (ready_) return absl::OkStatus();
  if (closed_ && !why_.ok()) return why_;
  return absl::UnavailableError("the server did not answer on a bulk connection");
}

absl::Status ChannelBulkLink::AskForMemory(absl::Time deadline) {
  MutexLock lock(&mu_);
  if (has_memory_) return absl::OkStatus();
  memory_answered_ = false;
  Push({kBulkMemory, MemoryRequest(va_)});
  while (!memory_answered_ && !closed_ && !stopped_ && absl::Now() < deadline) {
    changed_.WaitWithTimeout(&mu_, deadline - absl::Now());
  }
  if (has_memory_) return absl::OkStatus();
  if (memory_answered_) return memory_refused_;
  return absl::UnavailableError("the server did not answer a request for host memory");
}

void ChannelBulkLink::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

void ChannelBulkLink::Disconnect() {
  {
    MutexLock lock(&mu_);
    live_ = nullptr;
  }
  // Afterwards no loop runs, and OnClosed() has been called if there was a connection.
  channel_.reset();
  MutexLock lock(&mu_);
  frames_.clear();
  has_frames_.store(false, std::memory_order_relaxed);
}

bool ChannelBulkLink::NextFrame(Frame* frame) {
  if (!has_frames_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  if (frames_.empty()) return false;
  *frame = std::move(frames_.front());
  frames_.pop_front();
  has_frames_.store(!frames_.empty(), std::memory_order_release);
  return true;
}

Accept ChannelBulkLink::OnFrame(Frame* frame) {
  const absl::Status status = Take(frame);
  if (!status.ok()) {
    MutexLock lock(&mu_);
    up_.store(false, std::memory_order_release);
    if (live_ != nullptr) live_->Close(status);
  }
  return Accept::kTaken;
}

absl::Status ChannelBulkLink::Take(Frame* frame) {
  if (frame->kind == kBulkBytes) return TakeBytes(&frame->payload);
  MutexLock lock(&mu_);
  switch (frame->kind) {
    case kBulkReady:
      ready_ = true;
      break;
    case kBulkMemoryDone: {
      const absl::Status answered = MemoryAnswered(frame->payload);
      if (absl::IsInvalidArgument(answered)) return answered;
      memory_answered_ = true;
      has_memory_ = answered.ok();
      memory_refused_ = answered;
      break;
    }
    case kBulkTaken: {
      BulkTakenBody body;
      if (frame->payload.size() != sizeof(body)) {
        return absl::InvalidArgumentError("malformed frame");
      }
      std::memcpy(&body, frame->payload.data(), sizeof(body));
      if (!tickets_.SetPutsDone(body.puts)) {
        return absl::InvalidArgumentError("the server took what was not put");
      }
      break;
    }
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("frame kind ", frame->kind, " on a bulk connection"));
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ChannelBulkLink::TakeBytes(std::string* bytes) {
  MutexLock lock(&mu_);
  const auto next = gets_.upper_bound(got_);
  if (next == gets_.end()) {
    return absl::InvalidArgumentError("the server sent what was not asked for");
  }
  if (bytes->size() != next->second.bytes) {
    return absl::InvalidArgumentError("the server sent more or less than was asked for");
  }
  got_ = next->first;
  next->second.received.swap(*bytes);
  if (!spare_.empty()) {
    bytes->swap(spare_.back());
    spare_.pop_back();
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

void ChannelBulkLink::OnClosed(const absl::Status& status) {
  MutexLock lock(&mu_);
  up_.store(false, std::memory_order_release);
  live_ = nullptr;
  closed_ = true;
  why_ = status.ok() ? absl::UnavailableError("the server ended a bulk connection") : status;
  tickets_.Lose();
  gets_.clear();
  got_ = 0;
  changed_.NotifyAll();
}

uint64_t ChannelBulkLink::connection() {
  MutexLock lock(&mu_);
  return live_ == nullptr ? 0 : tickets_.connection();
}

BulkTicket ChannelBulkLink::Put(uint64_t va, std::string_view from) {
  // Outside the lock: the source may be slow.
  std::shared_ptr<std::string> payload = buffers_->Take();
  Fill({va, from.size()}, from, payload.get());
  MutexLock lock(&mu_);
  if (live_ == nullptr) return {};
  const BulkTicket ticket = tickets_.NewPut();
  Push({kBulkPut, "", std::move(payload)});
  return ticket;
}

BulkTicket ChannelBulkLink::Get(uint64_t va, void* to, uint64_t bytes) {
  std::string payload;
  Fill({va, bytes}, {}, &payload);
  MutexLock lock(&mu_);
  if (live_ == nullptr) return {};
  const BulkTicket ticket = tickets_.NewGet();
  gets_[ticket.number] = {to, bytes};
  Push({kBulkGet, std::move(payload)});
  return ticket;
}

bool ChannelBulkLink::IsOver(const BulkTicket& ticket) const {
  if (tickets_.connection() != ticket.connection) return true;
  if (gets_.contains(ticket.number)) return got_ >= ticket.number;
  return tickets_.PutsDone(ticket.number);
}

bool ChannelBulkLink::Await(const BulkTicket& ticket) {
  Target target;
  {
    MutexLock lock(&mu_);
    while (!IsOver(ticket)) changed_.Wait(&mu_);
    if (tickets_.connection() != ticket.connection) return false;
    const auto get = gets_.find(ticket.number);
    if (get == gets_.end()) return true;
    target = std::move(get->second);
    gets_.erase(get);
  }
  std::memcpy(target.to, target.received.data(), target.received.size());
  MutexLock lock(&mu_);
  spare_.push_back(std::move(target.received));
  return true;
}

}  // namespace warpline::stub
