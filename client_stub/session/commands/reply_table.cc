#include "client_stub/session/commands/reply_table.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace warpline::stub {
namespace {

// Writes data, which begins `offset` bytes into the rows of a box, to its place in the box.
void Scatter(const BoxPlace& box, const BoxExtent& extent, uint64_t offset, std::string_view data) {
  while (!data.empty()) {
    const uint64_t row = offset / extent.width;
    const uint64_t x = offset % extent.width;
    const size_t bytes = std::min<uint64_t>(extent.width - x, data.size());
    const uint64_t at =
        box.address + row / extent.height * box.slice + row % extent.height * box.pitch + x;
    std::memcpy(reinterpret_cast<void*>(at), data.data(), bytes);
    data.remove_prefix(bytes);
    offset += bytes;
  }
}

}  // namespace

bool ReplyTable::Expect(uint64_t seq, const ExpectedReply& expected, CudaResult* error) {
  SpinMutexLock lock(&mu_);
  if (error_ != CudaResult::kSuccess) {
    *error = error_;
    return false;
  }
  expected_[seq] = expected;
  if (expected.staged != nullptr) staged_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ReplyTable::BeforeRetired(uint64_t stream, uint64_t seq, uint64_t all_seq) {
  // A command was expected before it left, so whoever hears of its end sees that it is.
  if (staged_.load(std::memory_order_relaxed) == 0) return;
  // By number, since the later of two copies to one place is to remain.
  std::map<uint64_t, ExpectedReply> due;
  {
    SpinMutexLock lock(&mu_);
    for (auto& [number, expected] : expected_) {
      if (expected.staged == nullptr) continue;
      if (number > all_seq && !(expected.stream == stream && number <= seq)) continue;
      due[number] = expected;
      expected.staged = nullptr;
    }
  }
  for (const auto& [number, expected] : due) TakeStaged(expected);
}

void ReplyTable::TakeStaged(const ExpectedReply& expected) {
  std::memcpy(expected.destination, expected.staged, expected.staged_bytes);
  staged_.fetch_sub(1, std::memory_order_relaxed);
}

ReplyTable::Outcome ReplyTable::Reply(uint64_t seq, CudaResult result, std::string_view fields,
                                      CommandId* command) {
  ExpectedReply expected;
  {
    SpinMutexLock lock(&mu_);
    const auto it = expected_.find(seq);
    if (it == expected_.end()) return Outcome::kUnexpected;
    // A copy that reports success without all of its data has failed. The caller fails the session,
    // and thereby the waiter.
    if (result == CudaResult::kSuccess && it->second.copied != it->second.bytes) {
      return Outcome::kUnexpected;
    }
    expected = it->second;
    expected_.erase(it);
  }
  *command = expected.command;
  if (expected.staged != nullptr) TakeStaged(expected);
  if (expected.waiter != nullptr) {
    expected.waiter->Complete(result, fields);
    return Outcome::kTaken;
  }
  return result == CudaResult::kSuccess ? Outcome::kTaken : Outcome::kUnclaimed;
}

ReplyTable::Outcome ReplyTable::CopyData(uint64_t seq, uint64_t offset, std::string_view data) {
  ExpectedReply target;
  {
    SpinMutexLock lock(&mu_);
    const auto it = expected_.find(seq);
    if (it == expected_.end()) return Outcome::kUnexpected;
    ExpectedReply& expected = it->second;
    if (offset > expected.bytes || data.size() > expected.bytes - offset ||
        data.size() > expected.bytes - expected.copied) {
      return Outcome::kUnexpected;
    }
    expected.copied += data.size();
    target = expected;
  }
  // Only the loop removes entries, and this is the loop, so the destination still belongs to the
  // command.
  if (target.box.pitch != 0) {
    Scatter(target.box, target.extent, offset, data);
  } else if (!data.empty()) {
    std::memcpy(target.destination + offset, data.data(), data.size());
  }
  return Outcome::kTaken;
}

void ReplyTable::Fail(CudaResult error) {
  absl::flat_hash_map<uint64_t, ExpectedReply> orphans;
  {
    SpinMutexLock lock(&mu_);
    if (error_ == CudaResult::kSuccess) error_ = error;
    orphans.swap(expected_);
  }
  failed_.store(true, std::memory_order_release);
  for (auto& [seq, expected] : orphans) {
    if (expected.waiter != nullptr) expected.waiter->Complete(error, {});
  }
}

}  // namespace warpline::stub
