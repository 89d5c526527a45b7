#include "client_stub/core/mirrored_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client_stub/core/fault_handler.h"
#include "client_stub/core/system_calls.h"
#include "common/log.h"
#include "proto/wire.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
// CU_STREAM_NON_BLOCKING, on the wire.
constexpr uint32_t kNonBlocking = 1;
// Device memory beyond this is not zeroed for who never wrote it; nor does CUDA promise it.
constexpr uint64_t kMostZeroed = 64ull << 20;
// Small enough for the lock under which a command's bytes are copied.
constexpr uint64_t kPartBytes = kMaxTail;

// The process's one, for the signal handler's thread.
std::atomic<MirroredMemory*> g_memory{nullptr};

uint64_t Down(uint64_t address) { return address / kPage * kPage; }
uint64_t Up(uint64_t address) { return Down(address + kPage - 1); }

// Raw, as where the arena is reserved: nobody should take it for the program's own.
bool MapPages(uint64_t at, uint64_t bytes, int protection, int how) {
  const long got = syscall(SYS_mmap, at, bytes, protection,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
  if (got == -1) return false;
  if (static_cast<uint64_t>(got) == at) return true;
  syscall(SYS_munmap, got, bytes);  // A kernel without MAP_FIXED_NOREPLACE.
  return false;
}

void ReserveAgain(uint64_t at, uint64_t bytes) { MapPages(at, bytes, PROT_NONE, MAP_FIXED); }

// Whether [begin, end) is this process's own memory, all of it writable, and no stack: what others
// share cannot be followed, and a handler needs its stack.
bool IsPlainMemory(uint64_t begin, uint64_t end) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  uint64_t next = begin;
  while (next < end && std::getline(maps, line)) {
    uint64_t from, to, inode;
    char rights[5];
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64, &from, &to,
                    rights, &inode) != 4) {
      return false;
    }
    if (to <= next) continue;
    if (from > next || inode != 0 || std::strncmp(rights, "rw", 2) != 0 || rights[3] != 'p' ||
        line.find("[stack") != std::string::npos) {
      return false;
    }
    next = to;
  }
  return next >= end;
}

}  // namespace

MirroredMemory::MirroredMemory(Session* session, DeviceMemory* memory, uint64_t stream)
    : session_(session), memory_(memory), stream_(stream) {
  g_memory.store(this);
}

// ---- Ranges.

bool MirroredMemory::StartLocked() {
  if (started_) return true;
  if (!StartFaultHandler(&OnFault)) return false;
  started_ = true;
  any_.store(true);
  return true;
}

uint64_t MirroredMemory::StreamFor(uint64_t device) {
  const auto count = static_cast<uint32_t>(session_->devices().size());
  const uint64_t at =
      DeviceOfAddress(device, session_->arena_base(), session_->arena_bytes(), count);
  // Variables lie outside the arena; any device gets to managed ones.
  const uint32_t number = at < count ? static_cast<uint32_t>(at) : 0;
  if ((streams_.fetch_or(1u << number) >> number & 1) == 0) {
    session_->Send(cmd::StreamCreate{StreamOn(number), kNonBlocking, 0});
  }
  return StreamOn(number);
}

void MirroredMemory::AddLocked(const Range& range, uint64_t first_page, uint64_t pages_bytes,
                               Mirror::State state) {
  Entry& entry = entries_[first_page];
  entry.range = range;
  entry.range.id = next_id_++;
  const uint64_t device = range.device - (range.host - first_page);
  Mirror::Place place = {first_page, device, pages_bytes};
  if (range.kind == Kind::kVariables) {
    place.device_begin = range.device;
    place.device_end = range.device + range.bytes;
  }
  entry.mirror = std::make_unique<Mirror>(place, state, static_cast<MirrorLink*>(this));
  if (range.host != range.device) apart_.fetch_add(1);
  const Entry& last = std::prev(entries_.end())->second;
  const uint64_t low = entries_.begin()->first;
  const uint64_t high = last.mirror->host() + last.mirror->bytes();
  SetFaultSpan(low, high);
  SetBufferSpan(low, high);
  Renew();
  CountLocked();
}

void MirroredMemory::EndLocked(Entries::iterator entry) {
  if (entry->second.range.host != entry->second.range.device) apart_.fetch_sub(1);
  entries_.erase(entry);
  CountLocked();
}

CUresult MirroredMemory::Allocate(Kind kind, uint32_t device, const Context* context,
                                  uint64_t bytes, unsigned int attached, uint64_t* address) {
  // One page more, so that whole pages are ours alone.
  const uint64_t pages_bytes = Up(bytes);
  uint64_t allocation;
  if (bytes > uint64_t{1} << 46) return CUDA_ERROR_OUT_OF_MEMORY;
  WARPLINE_TRY(memory_->Allocate(device, context, pages_bytes + kPage, &allocation));
  Range range;
  range.host = range.device = Up(allocation);
  range.bytes = bytes;
  range.kind = kind;
  range.attached = attached;
  range.allocation = allocation;
  range.context = context;
  MutexLock lock(&mu_);
  if (!StartLocked() || !MapPages(range.host, pages_bytes, PROT_READ | PROT_WRITE, MAP_FIXED)) {
    memory_->Free(allocation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pages_bytes <= kMostZeroed) {
    const uint64_t stream = StreamFor(range.device);
    session_->Send(cmd::Memset{stream, range.device, pages_bytes / 4, 0, 4});
    pushed_.fetch_or(1u << DeviceOfHandle(stream));
    const CUresult ordered = Order();
    if (ordered != CUDA_SUCCESS) {
      ReserveAgain(range.host, pages_bytes);
      return ordered;
    }
  }
  AddLocked(range, range.host, pages_bytes, Mirror::kSame);
  *address = range.host;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Register(uint32_t on, uint64_t host, uint64_t bytes, uint64_t* device) {
  const uint64_t first = Down(host);
  const uint64_t end = Up(host + bytes);
  if (!IsPlainMemory(first, end)) return CUDA_ERROR_NOT_SUPPORTED;
  uint64_t allocation;
  WARPLINE_TRY(memory_->Allocate(on, nullptr, end - first + kPage, &allocation));
  Range range;
  range.host = host;
  range.device = Up(allocation) + (host - first);
  range.bytes = bytes;
  range.kind = Kind::kRegistered;
  range.allocation = allocation;
  MutexLock lock(&mu_);
  const auto next = entries_.lower_bound(first);
  const bool overlaps = (next != entries_.end() && next->first < end) ||
                        (next != entries_.begin() &&
                         std::prev(next)->first + std::prev(next)->second.mirror->bytes() > first);
  // Two ranges that have a page in common cannot be followed apart.
  if (overlaps || !StartLocked()) {
    memory_->Free(allocation);
    return overlaps ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
  }
  AddLocked(range, first, end - first, Mirror::kHost);
  *device = range.device;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::AddVariables(const Module* module, uint64_t device, uint64_t bytes,
                                      uint64_t* host) {
  const uint64_t first = Down(device);
  const uint64_t pages_bytes = Up(device + bytes) - first;
  MutexLock lock(&mu_);
  for (const auto& [page, entry] : entries_) {
    if (entry.mirror->device() != first) continue;
    *host = entry.mirror->host() + (device - first);
    return CUDA_SUCCESS;
  }
  if (!StartLocked()) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t at = first;
  if (!MapPages(at, pages_bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE)) {
    void* elsewhere = mmap(nullptr, pages_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (elsewhere == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    at = reinterpret_cast<uint64_t>(elsewhere);
    LogWarning(
        "managed variables have another address in this process than on the device; "
        "kernels cannot be given theirs");
  }
  Range range;
  range.host = at + (device - first);
  range.device = device;
  range.bytes = bytes;
  range.kind = Kind::kVariables;
  range.module = module;
  AddLocked(range, at, pages_bytes, Mirror::kDevice);
  *host = range.host;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Free(Kind kind, uint64_t host) {
  const bool keeps_bytes = kind == Kind::kRegistered;
  if (kind != Kind::kManaged) AwaitWork();
  uint64_t allocation;
  {
    MutexLock lock(&mu_);
    const auto it = entries_.find(Down(host));
    if (it == entries_.end() || it->second.range.host != host || it->second.range.kind != kind) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Mirror& mirror = *it->second.mirror;
    allocation = it->second.range.allocation;
    if (keeps_bytes) {
      it->second.mirror->GiveToHost();
    } else {
      ReserveAgain(mirror.host(), mirror.bytes());
    }
    EndLocked(it);
  }
  return memory_->Free(allocation);
}

void MirroredMemory::FreeAllOf(const Context* context) {
  MutexLock lock(&mu_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->second.range.kind != Kind::kManaged || entry->second.range.context != context) {
      continue;
    }
    ReserveAgain(entry->second.mirror->host(), entry->second.mirror->bytes());
    memory_->Free(entry->second.range.allocation);
    EndLocked(entry);
  }
}

void MirroredMemory::ForgetVariablesOf(const Module* module) {
  MutexLock lock(&mu_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->second.range.kind != Kind::kVariables || entry->second.range.module != module) {
      continue;
    }
    syscall(SYS_munmap, entry->second.mirror->host(), entry->second.mirror->bytes());
    EndLocked(entry);
  }
}

// ---- What an address is.

MirroredMemory::Entry* MirroredMemory::FindHost(uint64_t address) {
  auto it = entries_.upper_bound(address);
  if (it == entries_.begin()) return nullptr;
  --it;
  return address - it->first < it->second.mirror->bytes() ? &it->second : nullptr;
}

const MirroredMemory::Entry* MirroredMemory::FindAny(uint64_t address) const {
  const auto after = entries_.upper_bound(address);
  if (after != entries_.begin()) {
    const Entry& entry = std::prev(after)->second;
    if (address - entry.range.host < entry.range.bytes) return &entry;
  }
  for (const auto& [page, entry] : entries_) {
    if (address - entry.range.device < entry.range.bytes) return &entry;
  }
  return nullptr;
}

bool MirroredMemory::Find(uint64_t address, Range* range) const {
  MutexLock lock(&mu_);
  const Entry* entry = FindAny(address);
  if (entry == nullptr) return false;
  *range = entry->range;
  return true;
}

bool MirroredMemory::IsManaged(uint64_t address) const {
  Range range;
  return Find(address, &range) && range.managed();
}

uint64_t MirroredMemory::Translate(uint64_t address) const {
  MutexLock lock(&mu_);
  const auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return address;
  const Range& range = std::prev(after)->second.range;
  return address - range.host < range.bytes ? range.device + (address - range.host) : address;
}

// ---- From one side to the other.

void MirroredMemory::CountLocked() {
  int count = 0;
  for (const auto& [page, entry] : entries_) count += entry.mirror->host_has_any() ? 1 : 0;
  host_has_.store(count, std::memory_order_release);
}

CUresult MirroredMemory::Push(uint64_t device, std::string_view bytes) {
  const uint64_t stream = StreamFor(device);
  pushed_.fetch_or(1u << DeviceOfHandle(stream));
  for (uint64_t done = 0; done < bytes.size(); done += kPartBytes) {
    const uint64_t seq =
        session_->Send(cmd::CopyToDevice{stream, device + done}, bytes.substr(done, kPartBytes));
    if (seq == 0) return ToCu(session_->error());
  }
  return CUDA_SUCCESS;
}

// Not a copy that waits: that would write what kernels printed with the application's stdio, whose
// lock the thread that touched the memory may hold.
CUresult MirroredMemory::Pull(void* to, uint64_t device, uint64_t bytes) {
  const uint64_t stream = StreamFor(device);
  uint64_t seq = 0;
  WARPLINE_TRY(ToCu(session_->CopyOut(stream, to, device, bytes, /*wait=*/false, &seq)));
  return ToCu(session_->Call(WaitKind::kRoundTrip, cmd::StreamSync{stream}));
}

// What any stream is given from now on finds what was pushed.
CUresult MirroredMemory::Order() {
  uint32_t pushed = pushed_.exchange(0);
  for (uint32_t device = 0; pushed != 0; ++device, pushed >>= 1) {
    if ((pushed & 1) == 0) continue;
    if (session_->Send(cmd::StreamBarrier{StreamOn(device)}) == 0) return ToCu(session_->error());
  }
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::GiveAll(uint64_t stream) {
  MutexLock lock(&mu_);
  CUresult result = CUDA_SUCCESS;
  for (auto& [page, entry] : entries_) {
    if (!entry.mirror->host_has_any()) continue;
    // By its attachment no kernel of this stream accesses it.
    if (entry.range.attached == CU_MEM_ATTACH_HOST) continue;
    if (entry.range.attached == CU_MEM_ATTACH_SINGLE && entry.range.stream != stream) continue;
    const CUresult given = entry.mirror->GiveToDevice(0, entry.mirror->bytes());
    if (result == CUDA_SUCCESS) result = given;
  }
  Renew();
  CountLocked();
  const CUresult ordered = Order();
  return result == CUDA_SUCCESS ? ordered : result;
}

CUresult MirroredMemory::Give(uint64_t device, uint64_t bytes) {
  MutexLock lock(&mu_);
  CUresult result = CUDA_SUCCESS;
  for (auto& [page, entry] : entries_) {
    Mirror& mirror = *entry.mirror;
    if (device >= mirror.device() + mirror.bytes() || device + bytes <= mirror.device()) continue;
    const uint64_t begin = std::max(device, mirror.device());
    const uint64_t end = std::min(device + bytes, mirror.device() + mirror.bytes());
    const CUresult given = mirror.GiveToDevice(begin - mirror.device(), end - begin);
    if (result == CUDA_SUCCESS) result = given;
  }
  CountLocked();
  const CUresult ordered = Order();
  return result == CUDA_SUCCESS ? ordered : result;
}

void MirroredMemory::AfterHostCall() {
  if (host_has_.load(std::memory_order_acquire) == 0) return;
  GiveAll(kNoStream);
  uint32_t streams = streams_.load();
  for (uint32_t device = 0; streams != 0; ++device, streams >>= 1) {
    if ((streams & 1) != 0) {
      session_->Call(WaitKind::kRoundTrip, cmd::StreamSync{StreamOn(device)});
    }
  }
}

void MirroredMemory::AwaitWork() {
  if (session_->Retired(kNoStream, session_->last_seq())) return;
  session_->Call(WaitKind::kRoundTrip, cmd::ContextSync{});
}

CUresult MirroredMemory::Attach(uint64_t address, uint64_t bytes, unsigned int flags,
                                uint64_t stream) {
  MutexLock lock(&mu_);
  Entry* entry = FindHost(address);
  if (entry == nullptr || !entry->range.managed() || entry->range.host != address ||
      (bytes != 0 && bytes != entry->range.bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  entry->range.attached = flags;
  entry->range.stream = stream;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Prefetch(uint64_t address, uint64_t bytes, bool to_device) {
  Range range;
  if (bytes == 0 || !Find(address, &range) || !range.managed() ||
      bytes > range.bytes - (address - range.host)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (to_device) return BeforeAccess(ToDevice(address), bytes);
  // To the host it is a hint, which would have to wait for the work before it.
  return CUDA_SUCCESS;
}

// ---- Touches.

// Pages are inaccessible from here on: signals and system calls come by us.
void MirroredMemory::Renew() {
  RenewFaultHandler();
  InterposeSystemCalls([](uint64_t address, uint64_t bytes, bool write) {
    return g_memory.load()->Touch(address, bytes, write);
  });
}

bool MirroredMemory::OnFault(uint64_t address, bool write, bool host_call) {
  MirroredMemory* const memory = g_memory.load();
  return memory != nullptr && memory->Resolve(address, write, host_call);
}

bool MirroredMemory::Resolve(uint64_t address, bool write, bool host_call) {
  bool waited = host_call;  // By the order of its stream.
  while (true) {
    {
      MutexLock lock(&mu_);
      Entry* entry = FindHost(address);
      if (entry == nullptr) return false;
      const uint64_t offset = address - entry->mirror->host();
      if (waited || !entry->mirror->OnDevice(offset)) {
        // Should the device's bytes not come, the session is lost; the program finds out by itself.
        entry->mirror->Touch(offset, write);
        CountLocked();
        return true;
      }
    }
    // Not with the lock: what is waited for may be a function that touches memory itself.
    AwaitWork();
    waited = true;
  }
}

bool MirroredMemory::Touch(uint64_t address, uint64_t bytes, bool write) {
  if (bytes == 0) return false;
  bool found = false;
  bool waited = false;
  for (uint64_t at = address; at < address + bytes;) {
    uint64_t next;
    {
      MutexLock lock(&mu_);
      auto after = entries_.upper_bound(at);
      const bool inside = after != entries_.begin() &&
                          at - std::prev(after)->first < std::prev(after)->second.mirror->bytes();
      next = after == entries_.end() ? address + bytes : after->first;
      if (inside) {
        Mirror& mirror = *std::prev(after)->second.mirror;
        found = true;
        const uint64_t end = std::min(address + bytes, mirror.host() + mirror.bytes());
        if (waited) {
          mirror.Fetch(at - mirror.host(), end - at, write);
          CountLocked();
          next = end;
        } else {
          next = at;
        }
      }
    }
    if (next == at) {
      AwaitWork();
      waited = true;
    }
    at = next;
  }
  return found;
}

}  // namespace warpline::stub
