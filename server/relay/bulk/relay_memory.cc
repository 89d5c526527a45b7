#include "server/relay/bulk/relay_memory.h"

#include <sys/mman.h>

#include <utility>

#include "absl/time/clock.h"
#include "common/sealed_memory.h"

namespace warpline::relay {

RelayMemory::~RelayMemory() {
  MutexLock lock(&mu_);
  for (const Slot& slot : slots_) {
    if (slot.mapped != nullptr) munmap(slot.mapped, slot.bytes);
  }
}

absl::StatusOr<warpline_internal::HostMemoryAnswer> RelayMemory::Get(
    uint32_t slot, uint64_t va, uint64_t bytes, absl::Duration patience,
    const std::atomic<bool>& given_up) {
  const absl::Time until = absl::Now() + patience;
  MutexLock lock(&mu_);
  Slot& mine = slots_[slot];
  if (mine.mapped != nullptr) {
    if (mine.va == va && mine.bytes == bytes) return warpline_internal::HostMemoryAnswer();
    return absl::InvalidArgumentError("a slot has one piece of memory");
  }
  if (!mine.asked) {
    const absl::Status asked = ask_(slot, va, bytes);
    if (!asked.ok()) return asked;
    mine.va = va;
    mine.bytes = bytes;
    mine.asked = true;
  } else if (mine.va != va || mine.bytes != bytes) {
    return absl::InvalidArgumentError("a slot has one piece of memory");
  }
  while (!mine.answer.has_value() && !over_ && !given_up.load() && absl::Now() < until) {
    changed_.WaitWithTimeout(&mu_, until - absl::Now());
  }
  if (!mine.answer.has_value()) return absl::UnavailableError("the server does not answer");
  // What was refused may be asked for again.
  mine.asked = false;
  return *std::exchange(mine.answer, std::nullopt);
}

absl::Status RelayMemory::OnAnswer(uint32_t slot, const warpline_internal::HostMemoryAnswer& answer,
                                   UniqueFd fd) {
  MutexLock lock(&mu_);
  if (slot >= slots_.size() || !slots_[slot].asked || slots_[slot].answer.has_value()) {
    return absl::InvalidArgumentError("memory that was not asked for");
  }
  Slot& mine = slots_[slot];
  if (answer.error() == 0) {
    // What is sealed cannot be cut short, so accesses to it do not fault.
    const auto sealed = SealedBytes(fd.get());
    if (!sealed.ok() || *sealed < mine.bytes || mine.bytes == 0) {
      return absl::InvalidArgumentError("memory that is not what was asked for");
    }
    void* const mapped = mmap(nullptr, mine.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) return absl::ResourceExhaustedError("memory cannot be mapped");
    mine.mapped = static_cast<char*>(mapped);
  }
  mine.answer = answer;
  changed_.NotifyAll();
  return absl::OkStatus();
}

void RelayMemory::End() {
  MutexLock lock(&mu_);
  over_ = true;
  changed_.NotifyAll();
}

void RelayMemory::Wake() {
  MutexLock lock(&mu_);
  changed_.NotifyAll();
}

char* RelayMemory::Reach(uint32_t slot, uint64_t va, uint64_t bytes) {
  MutexLock lock(&mu_);
  const Slot& mine = slots_[slot];
  if (mine.mapped == nullptr || va < mine.va || va - mine.va > mine.bytes ||
      bytes > mine.bytes - (va - mine.va)) {
    return nullptr;
  }
  return mine.mapped + (va - mine.va);
}

}  // namespace warpline::relay
