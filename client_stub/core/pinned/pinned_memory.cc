#include "client_stub/core/pinned/pinned_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/runtime/runtime.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
// Smaller allocations share their chunk of device memory.
constexpr uint64_t kOwnSegment = 64u << 10;

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint64_t Up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Makes the system call itself, as arena_reservation.cc does.
bool MapPages(uint64_t at, uint64_t bytes, int protection, int how) {
  const long got = syscall(SYS_mmap, at, bytes, protection,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | how, -1, 0);
  return got != -1;
}

// The addresses that may be set aside: half of what all devices' memory leaves.
uint64_t MostReserved(const SessionTerms& terms) {
  uint64_t quotas = 0;
  for (const RemoteDevice& device : terms.devices) quotas += device.total_bytes;
  return quotas < terms.arena_bytes ? (terms.arena_bytes - quotas) / 2 : 0;
}

// Returns once all commands up to `seq` are complete. Reports no earlier error.
void AwaitCommands(uint64_t seq) {
  Commands& commands = *runtime().commands;
  if (!commands.Retired(kNoStream, seq)) commands.Call(WaitKind::kRoundTrip, cmd::ContextSync{});
}

// Waits for work that may use a range. CUDA waits here, too.
void AwaitWork() { AwaitCommands(runtime().commands->last_seq()); }

// Waits for copies into the range that may still be under way.
void AwaitCopies(const HostMemory::Range& range) {
  if (range.last_copy != 0) AwaitCommands(range.last_copy);
}

void LogLine(const char* text) {
  if (const LogPermit permit = CallLog().Ask(kPinnedLine)) permit.Warning(text);
}

}  // namespace

PinnedMemory::PinnedMemory(const Parts& parts)
    : parts_(parts), most_reserved_(MostReserved(*parts.terms)) {
  parts_.mirrored->SetLook([this](uint64_t to, std::string_view bytes) { Note(to, bytes); });
}

PinnedMemory::Changing::Changing(PinnedMemory* memory) : memory_(memory) {
  MutexLock lock(&memory->mu_);
  while (memory->changing_) memory->changed_.Wait(&memory->mu_);
  memory->changing_ = true;
}

PinnedMemory::Changing::~Changing() {
  MutexLock lock(&memory_->mu_);
  memory_->changing_ = false;
  memory_->changed_.NotifyAll();
}

// ---- Allocation.

CUresult PinnedMemory::Allocate(uint64_t bytes, unsigned int flags, void** memory) {
  if (bytes == 0) return parts_.host->Allocate(0, flags, memory);
  const CUresult shared = AllocateShared(bytes, flags, memory);
  if (shared != CUDA_ERROR_NOT_SUPPORTED) return shared;
  // The devices have such memory from the start, so that they may find its address anywhere.
  if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0) {
    uint64_t address;
    WARPLINE_TRY(parts_.mirrored->Allocate(MirroredMemory::Kind::kMapped, CurrentDevice().number,
                                           nullptr, bytes, CU_MEM_ATTACH_GLOBAL, &address));
    *memory = reinterpret_cast<void*>(address);
    parts_.host->Add(*memory, bytes, flags, address, /*shared=*/false);
    return CUDA_SUCCESS;
  }
  const CUresult in_arena = AllocateInArena(bytes, flags, memory);
  return in_arena == CUDA_ERROR_NOT_SUPPORTED ? parts_.host->Allocate(bytes, flags, memory)
                                              : in_arena;
}

CUresult PinnedMemory::AllocateShared(uint64_t bytes, unsigned int flags, void** memory) {
  uint64_t address;
  WARPLINE_TRY(ToCu(parts_.shared->Allocate(bytes, &address)));
  *memory = reinterpret_cast<void*>(address);
  runtime().seen_without_calls.store(true);
  parts_.host->Add(*memory, bytes, flags, address, /*shared=*/true);
  // Copies and fills treat it as the device's memory.
  parts_.memory->AddGlobal(CurrentDevice().number, nullptr, address, bytes);
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::AllocateInArena(uint64_t bytes, unsigned int flags, void** memory) {
  // A session that has all its memory from the start can map none by itself.
  if (parts_.terms->HasAllMemory() || bytes > most_reserved_) return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t pages = Up(bytes, kPage);
  uint64_t address;
  if (!TakeAddresses(CurrentDevice().number, pages, &address)) return CUDA_ERROR_NOT_SUPPORTED;
  if (!MapPages(address, pages, PROT_READ | PROT_WRITE, 0)) {
    ReturnAddresses(address, pages);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *memory = reinterpret_cast<void*>(address);
  parts_.host->AddInArena(*memory, bytes, flags);
  return CUDA_SUCCESS;
}

bool PinnedMemory::TakeAddresses(uint32_t device, uint64_t bytes, uint64_t* address) {
  MutexLock lock(&mu_);
  const bool small = bytes < kOwnSegment;
  for (auto it = segments_.begin(); small && it != segments_.end(); ++it) {
    Segment& segment = it->second;
    if (!segment.shared || segment.given || segment.device != device) continue;
    if (!segment.free.Take(bytes, address)) continue;
    segment.allocated[*address] = bytes;
    return true;
  }
  const uint64_t size = Up(bytes, kChunkGranularity);
  if (size > most_reserved_ - std::min(reserved_, most_reserved_)) return false;
  if (parts_.addresses->Reserve(device, size, 0, 0, address) != CudaResult::kSuccess) return false;
  reserved_ += size;
  Segment& segment = segments_[*address];
  segment.bytes = size;
  segment.device = device;
  segment.shared = small;
  if (small) segment.free.Add(*address + bytes, size - bytes);
  segment.allocated[*address] = bytes;
  return true;
}

PinnedMemory::Segments::iterator PinnedMemory::SegmentOf(uint64_t address) {
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  const auto it = std::prev(after);
  return address - it->first < it->second.bytes ? it : segments_.end();
}

void PinnedMemory::ReturnAddresses(uint64_t address, uint64_t bytes) {
  Segment gone;
  {
    MutexLock lock(&mu_);
    const auto it = SegmentOf(address);
    if (it == segments_.end()) return;
    it->second.allocated.erase(address);
    it->second.free.Add(address, bytes);
    if (!it->second.allocated.empty()) return;
    address = it->first;
    gone = std::move(it->second);
    segments_.erase(it);
    reserved_ -= gone.bytes;
  }
  if (gone.given) TakeMemoryAway(address, gone);
  parts_.addresses->FreeAddresses(address, gone.bytes);
}

// ---- The end.

CUresult PinnedMemory::End(void* base) {
  const Changing changing(this);
  HostMemory::Range range;
  if (!parts_.host->Find(base, &range) || range.base != base) return CUDA_ERROR_INVALID_VALUE;
  AwaitCopies(range);
  EndMapping(range);
  parts_.host->Remove(base);
  if (!range.in_arena) return CUDA_SUCCESS;
  const uint64_t pages = Up(range.bytes, kPage);
  // The mirror has done this.
  if (range.device == 0) MapPages(AddressOf(base), pages, PROT_NONE, MAP_NORESERVE);
  ReturnAddresses(AddressOf(base), pages);
  return CUDA_SUCCESS;
}

void PinnedMemory::EndAllOf(const Context* context) {
  for (const HostMemory::Range& range : parts_.host->RangesOf(context)) End(range.base);
}

void PinnedMemory::EndMapping(const HostMemory::Range& range) {
  if (range.device == 0) return;
  if (range.shared) {
    AwaitWork();
    parts_.memory->ForgetGlobal(range.device);
    return parts_.shared->Free(range.device);
  }
  const uint64_t host = AddressOf(range.base);
  if (range.registered && parts_.registered->ToDevice(host) == range.device) {
    AwaitWork();
    parts_.memory->ForgetGlobal(range.device);
    return parts_.registered->GiveBack(host);
  }
  const auto kind = range.kept ? MirroredMemory::Kind::kMapped : MirroredMemory::Kind::kRegistered;
  parts_.mirrored->Free(kind, host);
}

// ---- Giving.

CUresult PinnedMemory::Give(void* base, uint64_t* device) {
  const Changing changing(this);
  HostMemory::Range range;
  if (!parts_.host->Find(base, &range) || range.base != base) return CUDA_ERROR_INVALID_VALUE;
  *device = range.device;
  if (range.device != 0) return CUDA_SUCCESS;
  if (!range.in_arena) return GiveApart(base, device);
  *device = AddressOf(base);
  return GiveSegment(*device);
}

CUresult PinnedMemory::GiveApart(void* base, uint64_t* device) {
  const uint64_t host = AddressOf(base);
  HostMemory::Range range;
  if (!parts_.host->BeginGive(host, &range)) return CUDA_ERROR_INVALID_VALUE;
  AwaitCopies(range);
  const uint32_t on = CurrentDevice().number;
  // A page that has a mirror cannot be shared as well.
  const bool shared = range.registered &&
                      !parts_.mirrored->HasPages(host / kPage * kPage, host + range.bytes) &&
                      parts_.registered->Share(host, range.bytes, device) == CudaResult::kSuccess;
  CUresult result = CUDA_SUCCESS;
  if (shared) {
    runtime().seen_without_calls.store(true);
    // Copies and fills treat it as the device's memory.
    parts_.memory->AddGlobal(on, nullptr, *device, range.bytes);
  } else {
    result = parts_.mirrored->Register(on, host, range.bytes, device);
    // Synchronous copies, too, are to be followed by AfterWait().
    if (parts_.mirrored->has_edges()) runtime().seen_without_calls.store(true);
  }
  parts_.host->EndGive(host, result == CUDA_SUCCESS ? *device : 0,
                       result == CUDA_ERROR_NOT_SUPPORTED);
  return result;
}

// All of a segment is given: what kernels find at its addresses would not be the host's otherwise.
CUresult PinnedMemory::GiveSegment(uint64_t address) {
  uint64_t at;
  Segment segment;
  {
    MutexLock lock(&mu_);
    const auto it = SegmentOf(address);
    if (it == segments_.end()) return CUDA_ERROR_INVALID_VALUE;
    it->second.given = true;
    at = it->first;
    segment = it->second;
  }
  std::vector<HostMemory::Range> ranges;
  for (const auto& [base, bytes] : segment.allocated) {
    HostMemory::Range range;
    if (!parts_.host->BeginGive(base, &range)) continue;
    AwaitCopies(range);
    ranges.push_back(range);
  }
  CUresult result = PutMemoryBehind(at, segment);
  const bool there = result == CUDA_SUCCESS;
  for (const HostMemory::Range& range : ranges) {
    const uint64_t base = AddressOf(range.base);
    if (result == CUDA_SUCCESS) result = parts_.mirrored->Follow(base, range.bytes);
    parts_.host->EndGive(base, result == CUDA_SUCCESS ? base : 0);
  }
  if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
  if (there) TakeMemoryAway(at, segment);
  LogLine(
      "a kernel was given page-locked host memory, which on another host takes as much of the "
      "device's; that was refused");
  MutexLock lock(&mu_);
  segments_[at].given = false;
  return result;
}

CUresult PinnedMemory::PutMemoryBehind(uint64_t address, const Segment& segment) {
  VirtualMemory& addresses = *parts_.addresses;
  uint64_t handle;
  WARPLINE_TRY(ToCu(addresses.Create(segment.device, segment.bytes, 0, &handle)));
  CudaResult result = addresses.Map(address, segment.bytes, handle);
  for (uint32_t i = 0; i < parts_.terms->devices.size() && result == CudaResult::kSuccess; ++i) {
    result = addresses.SetAccess(address, segment.bytes, i, VirtualMemory::kReadWrite);
    // A device that cannot reach the memory of this one.
    if (result == CudaResult::kInvalidDevice && i != segment.device) result = CudaResult::kSuccess;
  }
  addresses.Release(handle);  // The mapping keeps it.
  if (result != CudaResult::kSuccess) addresses.Unmap(address, segment.bytes);
  return ToCu(result);
}

void PinnedMemory::TakeMemoryAway(uint64_t address, const Segment& segment) {
  parts_.addresses->Unmap(address, segment.bytes);
}

CUresult PinnedMemory::GiveAt(uint64_t* address) {
  HostMemory::Range range;
  if (!parts_.host->MayBeHosts(*address)) return CUDA_SUCCESS;
  if (!parts_.host->FindHosts(*address, &range)) return CUDA_SUCCESS;
  uint64_t device;
  WARPLINE_TRY(Give(range.base, &device));
  *address = device + (*address - AddressOf(range.base));
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
