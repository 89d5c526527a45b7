#include "client_stub/session/bulk/socket_bulk_link.h"

#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "client_stub/session/bulk/slot_memory.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

constexpr uint32_t kMostAnswer = 4096;

constexpr size_t kPageBytes = 4096;

// Memory that the application's own handler of faults provides is there afterwards, for now: what
// the handler waits for must not be waited for under a lock of the slot.
void TouchForReading(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPageBytes) {
    (void)*static_cast<const volatile char*>(bytes.data() + at);
  }
  if (!bytes.empty()) (void)*static_cast<const volatile char*>(&bytes.back());
}

void TouchForWriting(void* to, uint64_t bytes) {
  char* const begin = static_cast<char*>(to);
  // Others may write there at the same time.
  const auto touch = [](char* at) { __atomic_fetch_or(at, 0, __ATOMIC_RELAXED); };
  for (uint64_t at = 0; at < bytes; at += kPageBytes) touch(begin + at);
  if (bytes > 0) touch(begin + bytes - 1);
}

absl::Status Unexpected() {
  return absl::InvalidArgumentError("the relay sent what was not asked for");
}

}  // namespace

absl::Status SocketBulkLink::Connect(absl::Duration deadline) {
  Disconnect();
  const RelayTarget::Address address = target_->Get();
  if (address.endpoint.empty()) return absl::UnavailableError("the session has no relay");
  auto connected =
      BulkSocket::Connect(address.endpoint, address.secret, slot_, absl::Now() + deadline,
                          BulkSocket::Unreachable::kTouch, [this] {
                            MutexLock lock(&mu_);
                            return stopped_;
                          });
  if (!connected.ok()) return connected.status();
  const std::shared_ptr<BulkSocket> socket = *std::move(connected);
  const absl::Cleanup done = [this] {
    MutexLock lock(&mu_);
    connecting_ = nullptr;
  };
  {
    MutexLock lock(&mu_);
    if (stopped_) return absl::CancelledError("the session ends");
    connecting_ = socket;
  }
  const absl::Status has_memory = AskForMemory(socket.get());
  if (!has_memory.ok()) return has_memory;
  MutexLock lock(&mu_);
  socket_ = socket;
  up_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status SocketBulkLink::AskForMemory(BulkSocket* socket) {
  const absl::Status asked = socket->Send(kBulkMemory, MemoryRequest(va_), {});
  if (!asked.ok()) return asked;
  if (!socket->AwaitReadable(absl::Now() + kMemoryPatience)) {
    return absl::UnavailableError("the server did not answer a request for host memory");
  }
  BulkFrameHeader frame;
  absl::Status received = socket->Receive(&frame, sizeof(frame));
  if (!received.ok()) return received;
  if (frame.kind != kBulkMemoryDone || frame.bytes > kMostAnswer) return Unexpected();
  std::string answer(frame.bytes, '\0');
  received = socket->Receive(answer.data(), answer.size());
  return received.ok() ? MemoryAnswered(answer) : received;
}

void SocketBulkLink::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  if (connecting_ != nullptr) connecting_->Shut();
}

void SocketBulkLink::Disconnect() {
  std::shared_ptr<BulkSocket> socket;
  {
    MutexLock lock(&mu_);
    socket = socket_;
  }
  if (socket != nullptr) Lose(socket.get());
  // Whoever receives into memory of the application has returned.
  MutexLock lock(&receiving_);
}

void SocketBulkLink::Lose(const BulkSocket* socket) {
  MutexLock lock(&mu_);
  if (socket_.get() != socket) return;
  socket_->Shut();
  socket_ = nullptr;
  up_.store(false, std::memory_order_release);
  tickets_.Lose();
  gets_.clear();
}

uint64_t SocketBulkLink::connection() {
  MutexLock lock(&mu_);
  return socket_ == nullptr ? 0 : tickets_.connection();
}

SocketBulkLink::Turn SocketBulkLink::Begin(void* to, uint64_t bytes) {
  MutexLock lock(&mu_);
  if (socket_ == nullptr) return {};
  if (to == nullptr) return {socket_, tickets_.NewPut()};
  const BulkTicket ticket = tickets_.NewGet();
  gets_.push_back({to, bytes, ticket.number});
  return {socket_, ticket};
}

BulkTicket SocketBulkLink::Send(uint32_t kind, const BulkHeader& header, std::string_view from,
                                void* to) {
  MutexLock lock(&sending_);
  const Turn turn = Begin(to, header.bytes);
  if (turn.socket == nullptr) return {};
  // The relay may wait for what it has sent to be received before it takes more.
  BulkSocket* const socket = turn.socket.get();
  const auto receive = [this, socket] { return TryReceive(socket); };
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  if (!socket->Send(kind, head, from, receive).ok()) Lose(socket);
  return turn.ticket;
}

BulkTicket SocketBulkLink::Put(uint64_t va, std::string_view from) {
  TouchForReading(from);
  return Send(kBulkPut, {va, from.size()}, from, nullptr);
}

BulkTicket SocketBulkLink::Get(uint64_t va, void* to, uint64_t bytes) {
  TouchForWriting(to, bytes);
  return Send(kBulkGet, {va, bytes}, {}, to);
}

bool SocketBulkLink::IsDone(const BulkTicket& ticket) const {
  return tickets_.PutsDone(ticket.number) &&
         (gets_.empty() || gets_.front().number > ticket.number);
}

bool SocketBulkLink::Await(const BulkTicket& ticket) {
  while (true) {
    {
      MutexLock lock(&mu_);
      if (tickets_.connection() == ticket.connection && IsDone(ticket)) return true;
    }
    // Also where it is lost: then whoever receives for this thread has returned.
    MutexLock lock(&receiving_);
    {
      MutexLock state(&mu_);
      if (tickets_.connection() != ticket.connection) return false;
      if (IsDone(ticket)) return true;
    }
    (void)ReceiveOne();
  }
}

bool SocketBulkLink::TryReceive(BulkSocket* socket) {
  if (!receiving_.TryLock()) return false;
  bool current;
  {
    MutexLock lock(&mu_);
    current = socket_.get() == socket;
  }
  // Another thread may have received what there was, and then nothing need come before all is sent.
  const bool received = current && socket->AwaitReadable(absl::InfinitePast()) && ReceiveOne().ok();
  receiving_.Unlock();
  return received;
}

absl::Status SocketBulkLink::ReceiveOne() {
  std::shared_ptr<BulkSocket> socket;
  {
    MutexLock lock(&mu_);
    socket = socket_;
  }
  if (socket == nullptr) return absl::UnavailableError("there is no connection");
  BulkFrameHeader frame;
  absl::Status status = socket->Receive(&frame, sizeof(frame));
  if (status.ok()) {
    status = frame.kind == kBulkTaken   ? OnTaken(socket.get(), frame.bytes)
             : frame.kind == kBulkBytes ? OnBytes(socket.get(), frame.bytes)
                                        : Unexpected();
  }
  if (!status.ok()) Lose(socket.get());
  return status;
}

absl::Status SocketBulkLink::OnTaken(BulkSocket* socket, uint32_t bytes) {
  BulkTakenBody body;
  if (bytes != sizeof(body)) return Unexpected();
  const absl::Status received = socket->Receive(&body, sizeof(body));
  if (!received.ok()) return received;
  MutexLock lock(&mu_);
  if (socket_.get() != socket) return absl::OkStatus();
  return tickets_.SetPutsDone(body.puts) ? absl::OkStatus() : Unexpected();
}

absl::Status SocketBulkLink::OnBytes(BulkSocket* socket, uint32_t bytes) {
  Target target;
  {
    MutexLock lock(&mu_);
    if (socket_.get() != socket || gets_.empty()) return Unexpected();
    target = gets_.front();
  }
  if (bytes != target.bytes) return Unexpected();
  // Whoever waits does so until the target is no longer in the queue, or nobody receives.
  const absl::Status received = socket->Receive(target.to, target.bytes);
  if (!received.ok()) return received;
  MutexLock lock(&mu_);
  if (socket_.get() == socket) gets_.pop_front();
  return absl::OkStatus();
}

}  // namespace warpline::stub
