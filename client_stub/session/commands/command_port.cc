#include "client_stub/session/commands/command_port.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "client_stub/session/status/session_log.h"
#include "client_stub/session/waits/limited_wait.h"
#include "client_stub/session/waits/one_shot.h"
#include "client_stub/session/waits/wait_spin.h"
#include "common/log/log.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

// The size of one CopyFromDevice; longer copies are several.
constexpr uint64_t kMaxCopyOut = 1ull << 30;

// For counters that only the holder of a lock writes: uses no locked instruction.
void AddUnshared(std::atomic<uint64_t>* counter) {
  counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool TakesDeferred(WaitKind kind) {
  return kind == WaitKind::kSynchronize || kind == WaitKind::kCopyOut;
}

void AddShared(std::atomic<uint64_t>* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

}  // namespace

CommandPort::CommandPort(LogBudget* log, std::function<absl::Time()> now)
    : log_(log), spin_(ChooseWaitSpin()), now_(std::move(now)) {}

void CommandPort::SetTerms(uint32_t version, uint64_t window_bytes, uint64_t window_commands) {
  version_ = version;
  queue_.SetWindow(window_bytes, window_commands);
}

void CommandPort::Lose(CudaResult error) {
  errors_.Lose(error);
  queue_.Abort();
  replies_.Fail(error);
}

void CommandPort::CountCommand(CommandId id) {
  AddUnshared(&counters_.commands);
  AddUnshared(&counters_.by_command[static_cast<int>(id)]);
  if (id == CommandId::kLaunch) AddUnshared(&counters_.launches);
}

uint64_t CommandPort::Submit(CommandId id, const void* body, size_t body_bytes,
                             std::string_view tail, const ExpectedReply* expected) {
  if (errors_.error() != CudaResult::kSuccess) return 0;
  const size_t bytes = AlignWire(sizeof(CommandHeader) + body_bytes + tail.size());
  if (tail.size() > kMaxTail) {
    if (const LogPermit permit = log_->Ask(kNotSplitLine)) {
      permit.Error("command ", kCommandTable[static_cast<int>(id) - 1].name, " of ", tail.size(),
                   " bytes was not split; not sent");
    }
    return 0;
  }
  uint64_t seq = 0;
  {
    CommandQueue::Turn turn(&queue_);
    // What fills the window may wait for a host function.
    const uint64_t more = id == CommandId::kHostDone ? kHostDoneWindow : 0;
    if (!queue_.HasRoom(bytes, more)) {
      AddUnshared(&counters_.window_waits);
      channel_.Wake();
      if (!queue_.WaitForRoom(bytes, more)) return 0;
    }
    if (expected != nullptr) {
      CudaResult lost;
      if (!replies_.Expect(queue_.next_seq(), *expected, &lost)) return 0;
    }
    seq = queue_.next_seq();
    queue_.Put(id, body, body_bytes, tail);
    CountCommand(id);
    channel_.WakeExclusively();
  }
  return seq;
}

bool CommandPort::Knows(CommandId id) {
  if (FindCommand(id).version <= version_) return true;
  if (!said_unknown_.exchange(true)) {
    LogWarning("the server is older than this client (protocol ", version_, ") and lacks ",
               FindCommand(id).name, ", maybe more: what needs it is not supported");
  }
  return false;
}

uint64_t CommandPort::Append(CommandId id, const void* body, size_t body_bytes,
                             std::string_view tail) {
  return Knows(id) ? Submit(id, body, body_bytes, tail, nullptr) : 0;
}

void CommandPort::CountWait(WaitKind kind, CommandId id) {
  switch (kind) {
    case WaitKind::kRoundTrip:
      AddShared(&counters_.round_trips);
      AddShared(&counters_.round_trips_by_command[static_cast<int>(id)]);
      return;
    case WaitKind::kSynchronize:
      return AddShared(&counters_.synchronizes);
    case WaitKind::kCopyOut:
      return AddShared(&counters_.copies_out);
    case WaitKind::kFree:
      return AddShared(&counters_.free_waits);
    case WaitKind::kPiece:
      return;
  }
}

CudaResult CommandPort::WaitFor(ReplyWaiter* waiter) {
  const bool driven = channel_.Drive([waiter] { return waiter->done(); }, absl::FromChrono(spin_));
  return waiter->Wait(driven ? std::chrono::nanoseconds(0) : spin_);
}

CudaResult CommandPort::RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                                  std::string_view tail, std::string* fields) {
  if (!Knows(id)) {
    return errors_.error() == CudaResult::kSuccess ? CudaResult::kNotSupported : errors_.error();
  }
  ReplyWaiter waiter(1, fields);
  const ExpectedReply expected = {.command = id, .waiter = &waiter};
  if (Submit(id, body, body_bytes, tail, &expected) == 0) return NotSent();
  CountWait(kind, id);
  return Finish(kind, &waiter);
}

CudaResult CommandPort::NotSent() {
  const CudaResult lost = errors_.error();
  return lost == CudaResult::kSuccess ? CudaResult::kInvalidValue : lost;
}

CudaResult CommandPort::Finish(WaitKind kind, ReplyWaiter* waiter) {
  const CudaResult result = WaitFor(waiter);
  if (result != CudaResult::kSuccess) errors_.WriteOutput();
  return result == CudaResult::kSuccess && TakesDeferred(kind) ? errors_.TakeDeferred() : result;
}

// A thread that waits for the board is woken by the report, or else looks again after a nap, for a
// report that was pushed out by another one and comes through the server alone.
void CommandPort::Watch(uint64_t stream, uint64_t seq) {
  const auto over = [&] { return Retired(stream, seq) || errors_.error() != CudaResult::kSuccess; };
  if (!channel_.Drive(over, absl::FromChrono(spin_))) SpinUntil(spin_, over);
  const LimitedWait wait(now_(), absl::InfiniteDuration());
  while (!over()) {
    const absl::Duration nap = wait.NapAt(now_());
    // Nothing more comes to the board then, and the missing replies are about to come here.
    if (shared_board_.IsAhead(stream, seq)) {
      channel_.Drive(over, absl::FromChrono(spin_));
      shared_board_.SleepUntilHandled(nap, over);
    } else {
      shared_board_.Sleep(stream, seq, nap, over);
    }
  }
}

// Naps instead of waiting for a reply: a reply that comes too late would have to be given up, and
// each further try would be one more command on its way. The worker reports unasked.
CudaResult CommandPort::WatchWithin(WaitKind kind, absl::Duration limit,
                                    absl::FunctionRef<bool()> done) {
  CountWait(kind, CommandId::kStreamSync);
  const auto over = [&] { return done() || errors_.error() != CudaResult::kSuccess; };
  const absl::Duration spin = std::min(absl::FromChrono(spin_), limit);
  if (!channel_.Drive(over, spin)) SpinUntil(absl::ToChronoNanoseconds(spin), over);
  const bool is_over = AwaitWithin(limit - spin, now_, over, [](absl::Duration nap) {
    const timespec time = absl::ToTimespec(nap);
    nanosleep(&time, nullptr);
  });
  errors_.WriteOutput();
  if (errors_.error() != CudaResult::kSuccess) return errors_.error();
  if (!is_over) return CudaResult::kTimeout;
  return TakesDeferred(kind) ? errors_.TakeDeferred() : CudaResult::kSuccess;
}

CudaResult CommandPort::WatchOrCall(WaitKind kind, uint64_t stream, uint64_t seq, CommandId id,
                                    const void* body, size_t body_bytes) {
  if (errors_.error() != CudaResult::kSuccess || !shared_board_.Open()) {
    return RoundTrip(kind, id, body, body_bytes, {}, nullptr);
  }
  CountWait(kind, id);
  return WatchBoard(kind, stream, seq);
}

CudaResult CommandPort::WatchBoard(WaitKind kind, uint64_t stream, uint64_t seq) {
  if (kind != WaitKind::kPiece) AddShared(&counters_.board_waits);
  Watch(stream, seq);
  if (errors_.error() != CudaResult::kSuccess) {
    errors_.WriteOutput();
    return errors_.error();
  }
  return TakesDeferred(kind) ? errors_.TakeDeferred() : CudaResult::kSuccess;
}

class CommandPort::AnnouncedCall final : public AnnouncedWait {
 public:
  AnnouncedCall(CommandPort* port, WaitKind kind) : port_(port), kind_(kind) {}
  // The answer is written to this object.
  ~AnnouncedCall() override {
    if (sent_) (void)port_->WaitFor(&waiter_);
  }

  // What could not be sent finds the session lost.
  void Send(CommandId id, const void* body, size_t body_bytes) {
    const ExpectedReply expected = {.command = id, .waiter = &waiter_};
    sent_ = port_->Submit(id, body, body_bytes, {}, &expected) != 0;
    if (sent_) port_->CountWait(kind_, id);
  }
  CudaResult Wait() override {
    if (!std::exchange(sent_, false)) return port_->NotSent();
    return port_->Finish(kind_, &waiter_);
  }

 private:
  CommandPort* const port_;
  const WaitKind kind_;
  ReplyWaiter waiter_{1};
  bool sent_ = false;
};

class CommandPort::AnnouncedWatch final : public AnnouncedWait {
 public:
  AnnouncedWatch(CommandPort* port, WaitKind kind, uint64_t stream, uint64_t seq)
      : port_(port), kind_(kind), stream_(stream), seq_(seq) {}

  CudaResult Wait() override { return port_->WatchBoard(kind_, stream_, seq_); }

 private:
  CommandPort* const port_;
  const WaitKind kind_;
  const uint64_t stream_;
  const uint64_t seq_;
};

std::unique_ptr<AnnouncedWait> CommandPort::AnnounceWait(WaitKind kind, uint64_t stream,
                                                         uint64_t seq, CommandId id,
                                                         const void* body, size_t body_bytes) {
  if (errors_.error() == CudaResult::kSuccess && shared_board_.Open()) {
    CountWait(kind, id);
    return std::make_unique<AnnouncedWatch>(this, kind, stream, seq);
  }
  auto call = std::make_unique<AnnouncedCall>(this, kind);
  call->Send(id, body, body_bytes);
  return call;
}

CudaResult CommandPort::CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                                uint64_t* seq) {
  if (seq != nullptr) *seq = last_seq();
  if (errors_.error() != CudaResult::kSuccess) return errors_.error();
  if (bytes == 0) return CudaResult::kSuccess;
  const int pieces = static_cast<int>((bytes + kMaxCopyOut - 1) / kMaxCopyOut);
  ReplyWaiter waiter(pieces);
  for (int i = 0; i < pieces; ++i) {
    const uint64_t offset = i * kMaxCopyOut;
    const cmd::CopyFromDevice command = {stream, src + offset,
                                         std::min(kMaxCopyOut, bytes - offset)};
    const ExpectedReply expected = {.command = CommandId::kCopyFromDevice,
                                    .waiter = wait ? &waiter : nullptr,
                                    .destination = static_cast<char*>(dst) + offset,
                                    .bytes = command.bytes};
    const uint64_t sent =
        Submit(CommandId::kCopyFromDevice, &command, sizeof(command), {}, &expected);
    if (sent == 0) {
      if (!wait) return errors_.error();
      waiter.Abandon(pieces - i, errors_.error());
      break;
    }
    if (seq != nullptr) *seq = sent;
  }
  CountWait(WaitKind::kCopyOut, CommandId::kCopyFromDevice);
  if (!wait) return CudaResult::kSuccess;
  const CudaResult result = WaitFor(&waiter);
  errors_.WriteOutput();
  return result == CudaResult::kSuccess ? errors_.TakeDeferred() : result;
}

// A copy of no bytes: its answer comes when the others have come, and before any later work, of any
// stream, is said to be complete.
CudaResult CommandPort::CopyStaged(uint64_t stream, void* dst, const void* staged, uint64_t src,
                                   uint64_t bytes, uint64_t* seq) {
  const cmd::CopyFromDevice command = {stream, src, 0};
  const ExpectedReply expected = {.command = CommandId::kCopyFromDevice,
                                  .destination = static_cast<char*>(dst),
                                  .staged = staged,
                                  .staged_bytes = bytes,
                                  .stream = stream};
  *seq = Submit(CommandId::kCopyFromDevice, &command, sizeof(command), {}, &expected);
  return *seq == 0 ? NotSent() : CudaResult::kSuccess;
}

CudaResult CommandPort::CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                   const BoxExtent& extent, bool wait, uint64_t* seq) {
  const cmd::CopyBoxFromDevice command = {stream,       src.address,   src.pitch,   src.slice,
                                          extent.width, extent.height, extent.depth};
  return BoxOut(CommandId::kCopyBoxFromDevice, &command, sizeof(command), dst, extent, wait, seq);
}

CudaResult CommandPort::CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst,
                                     bool wait, uint64_t* seq) {
  return BoxOut(CommandId::kCopyFromArray, &command, sizeof(command), dst,
                {command.width, command.height, command.depth}, wait, seq);
}

CudaResult CommandPort::BoxOut(CommandId id, const void* body, size_t body_bytes,
                               const BoxPlace& dst, const BoxExtent& extent, bool wait,
                               uint64_t* seq) {
  *seq = last_seq();
  if (errors_.error() != CudaResult::kSuccess) return errors_.error();
  ReplyWaiter waiter(1);
  const ExpectedReply expected = {.command = id,
                                  .waiter = wait ? &waiter : nullptr,
                                  .bytes = extent.bytes(),
                                  .box = dst,
                                  .extent = extent};
  const uint64_t sent = Submit(id, body, body_bytes, {}, &expected);
  if (sent == 0) return errors_.error();
  *seq = sent;
  CountWait(WaitKind::kCopyOut, id);
  if (!wait) return CudaResult::kSuccess;
  const CudaResult result = WaitFor(&waiter);
  return result == CudaResult::kSuccess ? errors_.TakeDeferred() : result;
}

}  // namespace warpline::stub
