#include "client_stub/session/commands/command_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "client_stub/session/waits/one_shot.h"
#include "proto/frames.h"
#include "proto/wire.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace warpline::stub {
namespace {

constexpr uint64_t kMask = CommandQueue::kCapacity - 1;
constexpr std::chrono::microseconds kSpinForRoom(20);
// How much is put between two looks whether the ring is empty, which the loop's thread writes.
constexpr uint64_t kLookEvery = 64u << 10;
constexpr size_t kHugePageBytes = 2u << 20;

// Returns `bytes` of zeroed memory for munmap(), on huge pages where the system has them for those
// that ask, or null. A program that fills the ring for the first time meets a fault every 2 MiB
// instead of every 4 KiB, which cost several times as much as the copying does.
char* MapHuge(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kHugePageBytes - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

CommandQueue::CommandQueue() : ring_(MapHuge(kCapacity)) {}

CommandQueue::~CommandQueue() {
  if (ring_ != nullptr) munmap(ring_, kCapacity);
}

// Older kernels than Linux 5.14 refuse, and pages come one by one.
void CommandQueue::Warm() { madvise(ring_, kWarmBytes, MADV_POPULATE_WRITE); }

void CommandQueue::SetWindow(uint64_t bytes, uint64_t commands) {
  window_bytes_ = bytes;
  window_commands_ = commands;
  ring_limit_ = std::min<uint64_t>(bytes, kCapacity);
}

bool CommandQueue::HasRoom(size_t bytes, uint64_t more) {
  const uint64_t end = tail_.load(std::memory_order_relaxed) + bytes;
  if (end - known_head_ > ring_limit_) {
    // After a restart the producers know of a later one.
    known_head_ = std::max(known_head_, head_.load(std::memory_order_seq_cst));
    if (end - known_head_ > ring_limit_) return false;
  }
  if (next_seq() - known_retired_ > window_commands_ + more) {
    known_retired_ = retired_.load(std::memory_order_seq_cst);
    if (next_seq() - known_retired_ > window_commands_ + more) return false;
  }
  return true;
}

bool CommandQueue::WaitForRoom(size_t bytes, uint64_t more) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const auto ended = [&] {
    return aborted_.load(std::memory_order_seq_cst) || HasRoom(bytes, more);
  };
  if (!SpinUntil(kSpinForRoom, ended)) {
    // The loop changes the window first and looks for waiters afterwards.
    producers_waiting_.fetch_add(1, std::memory_order_seq_cst);
    while (true) {
      const uint32_t seen = progress_.load(std::memory_order_seq_cst);
      if (ended()) break;
      producers_.Unlock();
      FutexWait(&progress_, seen);
      producers_.Lock();
    }
    producers_waiting_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return !aborted_.load(std::memory_order_seq_cst);
}

void CommandQueue::WakeProducers() {
  if (producers_waiting_.load(std::memory_order_seq_cst) == 0) return;
  progress_.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(&progress_);
}

void CommandQueue::Abort() {
  aborted_.store(true, std::memory_order_seq_cst);
  WakeProducers();
}

void CommandQueue::Write(uint64_t at, const void* data, size_t bytes) {
  const uint64_t offset = at & kMask;
  const size_t first = std::min<size_t>(bytes, kCapacity - offset);
  std::memcpy(ring_ + offset, data, first);
  if (first < bytes) std::memcpy(ring_, static_cast<const char*>(data) + first, bytes - first);
}

uint64_t CommandQueue::Restart(uint64_t at) {
  if ((at & kMask) < kRestartBytes || at - asked_ < kLookEvery) return at;
  asked_ = at;
  // Positions that the loop has passed do not change any more.
  if (head_.load(std::memory_order_seq_cst) != at) return at;
  reach_ = std::max(reach_, at - gap_end_);
  gap_begin_ = at;
  gap_end_ = (at | kMask) + 1;
  known_head_ = gap_end_;
  return gap_end_;
}

void CommandQueue::Put(CommandId id, const void* body, size_t body_bytes, std::string_view tail) {
  constexpr uint64_t kZero = 0;
  const size_t size = sizeof(CommandHeader) + body_bytes + tail.size();
  const CommandHeader header = {static_cast<uint16_t>(id), 0, static_cast<uint32_t>(size)};
  uint64_t at = Restart(tail_.load(std::memory_order_relaxed));
  Write(at, &header, sizeof(header));
  at += sizeof(header);
  if (body_bytes > 0) Write(at, body, body_bytes);
  at += body_bytes;
  if (!tail.empty()) Write(at, tail.data(), tail.size());
  at += tail.size();
  if (const size_t padding = AlignWire(size) - size; padding > 0) {
    Write(at, &kZero, padding);
    at += padding;
  }
  last_seq_.store(next_seq(), std::memory_order_release);
  tail_.store(at, std::memory_order_release);
}

bool CommandQueue::AllReceived() const {
  return received_seq_.load(std::memory_order_acquire) == last_seq();
}

bool CommandQueue::Take(std::string* payload, uint32_t acked) {
  const uint64_t tail = tail_.load(std::memory_order_acquire);
  if (tail == sent_) return false;
  if (sent_ == gap_begin_) sent_ = gap_end_;
  SentFrame frame = {sent_seq_, sent_seq_ + 1, sent_, sent_};
  while (frame.end != tail) {
    CommandHeader header;  // Never wraps: positions and capacity are multiples of its size.
    std::memcpy(&header, ring_ + (frame.end & kMask), sizeof(header));
    const uint64_t end = frame.end + AlignWire(header.size);
    if (end - frame.begin > kMaxCommandsPayload - sizeof(CommandsHeader)) break;
    frame.end = end;
    ++frame.last_seq;
  }
  const uint64_t bytes = sizeof(CommandsHeader) + (frame.end - frame.begin);
  if (unreceived_payload_ > 0 && unreceived_payload_ + bytes > window_bytes_) return false;
  AppendFrame(frame, acked, payload);
  unreceived_payload_ += bytes;
  sent_ = frame.end;
  sent_seq_ = frame.last_seq;
  sent_frames_.push_back(frame);
  return true;
}

void CommandQueue::AppendFrame(const SentFrame& frame, uint32_t acked, std::string* payload) const {
  const CommandsHeader header = {
      frame.first_seq, static_cast<uint32_t>(frame.last_seq - frame.first_seq + 1), acked};
  const size_t bytes = frame.end - frame.begin;
  const size_t offset = frame.begin & kMask;
  const size_t first = std::min<size_t>(bytes, kCapacity - offset);
  payload->clear();
  payload->reserve(sizeof(header) + bytes);
  payload->append(reinterpret_cast<const char*>(&header), sizeof(header));
  payload->append(ring_ + offset, first);
  payload->append(ring_, bytes - first);
}

bool CommandQueue::OnReceived(uint64_t seq) {
  if (seq > sent_seq_) return false;
  uint64_t head = head_.load(std::memory_order_relaxed);
  while (!sent_frames_.empty() && sent_frames_.front().last_seq <= seq) {
    const SentFrame& frame = sent_frames_.front();
    unreceived_payload_ -= sizeof(CommandsHeader) + (frame.end - frame.begin);
    head = frame.end;
    sent_frames_.pop_front();
  }
  if (seq > received_seq_.load(std::memory_order_relaxed)) {
    received_seq_.store(seq, std::memory_order_release);
  }
  head_.store(head, std::memory_order_seq_cst);
  WakeProducers();
  return true;
}

bool CommandQueue::OnRetired(uint64_t count) {
  if (count > sent_seq_) return false;
  if (count > retired_.load(std::memory_order_relaxed)) {
    retired_.store(count, std::memory_order_seq_cst);
    WakeProducers();
  }
  return true;
}

bool CommandQueue::Rewind(uint64_t seq, size_t* again) {
  if (seq < received_seq_.load(std::memory_order_relaxed) || !OnReceived(seq)) return false;
  // A server takes whole frames.
  if (!sent_frames_.empty() && sent_frames_.front().first_seq != seq + 1) return false;
  *again = sent_frames_.size();
  sent_frames_.clear();
  unreceived_payload_ = 0;
  sent_ = head_.load(std::memory_order_relaxed);
  sent_seq_ = seq;
  return true;
}

}  // namespace warpline::stub
