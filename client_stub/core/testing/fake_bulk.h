// Memory on the host of a server that is not there, with its bulk connections.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_BULK_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_BULK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "client_stub/session/bulk_memory.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. Puts and gets are done at once, unless their connection is lost.
class FakeBulk final : public BulkMemory {
 public:
  explicit FakeBulk(uint32_t first_slot = 0) : first_slot_(first_slot) {}

  // So many slots are connected from now on.
  void Connect(uint32_t slots) {
    MutexLock lock(&mu_);
    slots_ = slots;
    most_wanted_ = 0;
    ++connection_;
    for (uint32_t slot = 0; slot < slots; ++slot) memory_[slot].resize(kSlotBytes);
  }
  // After so many more puts and gets every connection is lost.
  void LoseAfter(int moves) {
    MutexLock lock(&mu_);
    moves_left_ = moves;
  }
  // A slot's memory from an address on, for who stands in for the device.
  char* At(uint64_t va) {
    MutexLock lock(&mu_);
    const uint64_t offset = va - Address(0);
    return memory_[offset / kSlotBytes].data() + offset % kSlotBytes;
  }
  bool Has(uint64_t va) const { return va - Address(0) < kSlots * kSlotBytes; }
  uint32_t most_wanted() {
    MutexLock lock(&mu_);
    return most_wanted_;
  }

  uint64_t Address(uint32_t slot) const override { return SlotAddress(first_slot_ + slot); }
  bool Connecting() override {
    MutexLock lock(&mu_);
    return connecting_;
  }
  void SetConnecting(bool connecting) {
    MutexLock lock(&mu_);
    connecting_ = connecting;
  }
  uint32_t Ready(uint32_t wanted) override {
    MutexLock lock(&mu_);
    most_wanted_ = std::max(most_wanted_, wanted);
    return std::min(wanted, slots_);
  }
  uint64_t Connection(uint32_t slot) override {
    MutexLock lock(&mu_);
    return slot < slots_ ? connection_ : 0;
  }
  BulkTicket Put(uint32_t slot, uint64_t va, std::string_view from) override {
    MutexLock lock(&mu_);
    if (!Move(slot)) return {};
    std::memcpy(memory_[slot].data() + (va - Address(slot)), from.data(), from.size());
    return {connection_, 1};
  }
  BulkTicket Get(uint32_t slot, uint64_t va, void* to, uint64_t bytes) override {
    MutexLock lock(&mu_);
    if (!Move(slot)) return {};
    std::memcpy(to, memory_[slot].data() + (va - Address(slot)), bytes);
    return {connection_, 1};
  }
  bool Await(uint32_t, const BulkTicket& ticket) override { return ticket.connection != 0; }

 private:
  bool Move(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (moves_left_ >= 0 && moves_left_-- == 0) slots_ = 0;
    return slot < slots_;
  }

  const uint32_t first_slot_;
  Mutex mu_;
  bool connecting_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t slots_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t most_wanted_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t connection_ ABSL_GUARDED_BY(mu_) = 0;
  int moves_left_ ABSL_GUARDED_BY(mu_) = -1;  // Until all is lost; never below 0.
  std::array<std::string, kSlots> memory_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_BULK_H_
