#include "server/hostlink/dispatch_page/dispatch_page.h"

#include <sys/mman.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "common/sealed_memory.h"

namespace warpline::dispatch {
namespace {

constexpr size_t kPageBytes = 8192;

}  // namespace

int64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

absl::StatusOr<std::unique_ptr<DispatchPage>> DispatchPage::Map(UniqueFd fd) {
  static_assert(sizeof(Memory) <= kPageBytes);
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap of a page of dispatch");
  return std::unique_ptr<DispatchPage>(new DispatchPage(std::move(fd), static_cast<Memory*>(page)));
}

absl::StatusOr<std::unique_ptr<DispatchPage>> DispatchPage::Create() {
  absl::StatusOr<UniqueFd> fd = NewSealedMemory("warpline-dispatch", kPageBytes);
  if (!fd.ok()) return fd.status();
  return Map(*std::move(fd));
}

absl::StatusOr<std::unique_ptr<DispatchPage>> DispatchPage::Attach(UniqueFd fd) {
  const absl::StatusOr<uint64_t> bytes = SealedBytes(fd.get());
  if (!bytes.ok() || *bytes != kPageBytes) {
    return absl::InvalidArgumentError("not the memory of a page of dispatch");
  }
  return Map(std::move(fd));
}

DispatchPage::~DispatchPage() { munmap(memory_, kPageBytes); }

void DispatchPage::ForgetWorker() {
  for (DeviceSlots& device : memory_->devices) {
    for (EngineSlot& slot : device) {
      slot.worker.executors_waiting.store(0, std::memory_order_relaxed);
      slot.worker.executors_in_flight.store(0, std::memory_order_relaxed);
      slot.worker.loads_ended.store(slot.worker.loads_begun.load(std::memory_order_relaxed),
                                    std::memory_order_relaxed);
    }
  }
  for (RankLine& line : memory_->ranks) {
    line.raised.store(0, std::memory_order_relaxed);
    for (RankLine::Rank& rank : line.ranks) {
      rank.at_work.store(0, std::memory_order_relaxed);
      rank.beginning.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace warpline::dispatch
