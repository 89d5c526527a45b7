#include "client_stub/session/commands/shared_board.h"

#include "proto/frames.h"

namespace warpline::stub {

bool SharedBoard::Open() {
  absl::call_once(opened_, [this] {
    const UniqueFd fd = source_ ? source_() : UniqueFd();
    auto reader = fd.valid() ? BoardReader::Attach(fd) : absl::NotFoundError("no board");
    if (!reader.ok()) return;
    reader_ = *std::move(reader);
    board_.store(reader_.get(), std::memory_order_release);
  });
  return board_.load(std::memory_order_relaxed) != nullptr;
}

bool SharedBoard::Retired(uint64_t stream, uint64_t seq) const {
  const BoardReader* const board = board_.load(std::memory_order_acquire);
  if (board == nullptr) return false;
  return Ask(*board, stream, seq) == Said::kComplete ||
         (stream != kWholeSession && Ask(*board, kWholeSession, seq) == Said::kComplete);
}

SharedBoard::Said SharedBoard::Ask(const BoardReader& board, uint64_t key, uint64_t seq) const {
  BoardReport report;
  if (!board.Read(key, &report) || seq > report.number ||
      report.generation != generation_.load(std::memory_order_acquire)) {
    return Said::kNothing;
  }
  return report.after <= ordered_.load(std::memory_order_acquire) ? Said::kComplete : Said::kAhead;
}

bool SharedBoard::IsAhead(uint64_t stream, uint64_t seq) const {
  const BoardReader* const board = board_.load(std::memory_order_acquire);
  return board != nullptr && (Ask(*board, stream, seq) == Said::kAhead ||
                              Ask(*board, kWholeSession, seq) == Said::kAhead);
}

void SharedBoard::SleepUntilHandled(absl::Duration timeout, absl::FunctionRef<bool()> done) const {
  MutexLock lock(&mu_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (!done()) handled_.WaitWithTimeout(&mu_, timeout);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void SharedBoard::OnBegins(uint64_t generation) {
  // Whoever sees the new generation must not see the old count.
  ordered_.store(0, std::memory_order_relaxed);
  generation_.store(generation, std::memory_order_release);
}

void SharedBoard::OnOrdered() {
  ordered_.store(ordered_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  // A thread that saw the former count sleeps by now.
  { MutexLock lock(&mu_); }
  handled_.NotifyAll();
}

}  // namespace warpline::stub
