#include "server/hostlink/dispatch_page/dispatch_page.h"

#include <sys/mman.h>

#include <algorithm>
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

uint64_t KernelNameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

// Each store releases, and each load acquires, so that a reader who sees a new value also sees that
// the version has changed.
void KernelLine::Write(const KernelFacts& kernel) {
  uint32_t version = version_.load(std::memory_order_relaxed);
  if (version % 2 != 0 ||
      !version_.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel)) {
    return;
  }
  block_threads_.store(kernel.block_threads, std::memory_order_release);
  registers_.store(kernel.registers, std::memory_order_release);
  shared_bytes_.store(kernel.shared_bytes, std::memory_order_release);
  name_.store(kernel.name, std::memory_order_release);
  grid_blocks_.store(kernel.grid_blocks, std::memory_order_release);
  expected_ns_.store(kernel.expected_ns, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

KernelFacts KernelLine::Read() const {
  const uint32_t version = version_.load(std::memory_order_acquire);
  KernelFacts kernel;
  kernel.block_threads = block_threads_.load(std::memory_order_acquire);
  kernel.registers = registers_.load(std::memory_order_acquire);
  kernel.shared_bytes = shared_bytes_.load(std::memory_order_acquire);
  kernel.name = name_.load(std::memory_order_acquire);
  kernel.grid_blocks = grid_blocks_.load(std::memory_order_acquire);
  kernel.expected_ns = std::max<int64_t>(expected_ns_.load(std::memory_order_acquire), 0);
  const bool whole = version % 2 == 0 && version_.load(std::memory_order_acquire) == version;
  return whole ? kernel : KernelFacts();
}

void KernelLine::Reset() {
  name_.store(0, std::memory_order_relaxed);
  version_.store(0, std::memory_order_relaxed);
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
  for (KernelLine& line : memory_->kernels) line.Reset();
  for (RankLine& line : memory_->ranks) {
    line.raised.store(0, std::memory_order_relaxed);
    for (RankLine::Rank& rank : line.ranks) {
      rank.at_work.store(0, std::memory_order_relaxed);
      rank.beginning.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace warpline::dispatch
