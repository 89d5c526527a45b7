#include "client_stub/core/managed/mirrored_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/managed/system_calls.h"
#include "client_stub/core/memory/process_maps.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
// Device memory beyond this is not zeroed for a host that never wrote it; nor does CUDA promise
// that.
constexpr uint64_t kMostZeroed = 64ull << 20;

uint64_t Down(uint64_t address) { return address / kPage * kPage; }
uint64_t Up(uint64_t address) { return Down(address + kPage - 1); }

// Makes the system call itself, as arena_reservation.cc does, so that tools do not count the pages
// as the program's own.
bool MapPages(uint64_t at, uint64_t bytes, int protection, int how) {
  const long got = syscall(SYS_mmap, at, bytes, protection,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
  if (got == -1) return false;
  if (static_cast<uint64_t>(got) == at) return true;
  syscall(SYS_munmap, got, bytes);  // A kernel without MAP_FIXED_NOREPLACE.
  return false;
}

void ReserveAgain(uint64_t at, uint64_t bytes) { MapPages(at, bytes, PROT_NONE, MAP_FIXED); }

// Returns true if a mirror can follow [begin, end): shared memory is written by others unseen.
bool MayBeMirrored(uint64_t begin, uint64_t end) {
  std::vector<ProcessMapping> mappings;
  return MappingsAt(begin, end, &mappings) && IsPlainMemory(mappings, begin, end);
}

}  // namespace

// ---- Ranges.

bool MirroredMemory::Start() {
  MutexLock lock(&mu_);
  if (started_) return true;
  if (!StartFaultHandler(&OnFault)) return false;
  started_ = true;
  any_.store(true);
  return true;
}

std::vector<Mirror::Extent> MirroredMemory::Extents(const std::vector<Variable>& variables) {
  std::vector<Mirror::Extent> extents;
  for (const Variable& variable : variables) extents.push_back(variable.extent);
  return extents;
}

void MirroredMemory::AddLocked(const Range& range, uint64_t first_page, uint64_t pages_bytes,
                               Mirror::State state, std::vector<Variable> variables) {
  const bool registered = range.kind == Kind::kRegistered;
  Entry& entry = entries_[registered ? range.host : first_page];
  entry.range = range;
  entry.range.id = next_id_++;
  const uint64_t device = range.device - (range.host - first_page);
  Mirror::Place place = {first_page, device, pages_bytes};
  place.extents = Extents(variables);
  entry.variables = std::move(variables);
  entry.mirror = std::make_unique<Mirror>(place, state, &streams_);
  if (registered) entry.edges = EdgesOf(range.host, range.device, range.bytes, &streams_);
  if (range.host != range.device) apart_.fetch_add(1);
  SetSpanLocked();
  CountLocked();
}

void MirroredMemory::SetSpanLocked() {
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  if (!entries_.empty()) {
    const Entry& last = std::prev(entries_.end())->second;
    low = entries_.begin()->first;
    high = last.mirror->host() + last.mirror->bytes();
  }
  if (!lost_.empty()) {
    low = std::min(low, lost_.begin()->first);
    high = std::max(high, std::prev(lost_.end())->first + std::prev(lost_.end())->second.bytes);
  }
  SetFaultSpan(low, high);
  SetBufferSpan(low, high);
}

void MirroredMemory::EndLocked(Entries::iterator entry) {
  if (entry->second.range.host != entry->second.range.device) apart_.fetch_sub(1);
  entries_.erase(entry);
  CountLocked();
}

CUresult MirroredMemory::Allocate(Kind kind, uint32_t device, const Context* context,
                                  uint64_t bytes, unsigned int attached, uint64_t* address) {
  // One page is added, so that whole pages belong to this range alone.
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
  const bool mapped =
      Start() && MapPages(range.host, pages_bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
  if (!mapped) {
    memory_->Free(allocation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pages_bytes <= kMostZeroed) {
    const CUresult zeroed = streams_.Zero(range.device, pages_bytes);
    if (zeroed != CUDA_SUCCESS) {
      ReserveAgain(range.host, pages_bytes);
      return zeroed;
    }
  }
  {
    MutexLock lock(&mu_);
    AddLocked(range, range.host, pages_bytes, Mirror::kSame);
  }
  Renew();
  *address = range.host;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Register(uint32_t on, uint64_t host, uint64_t bytes, uint64_t* device) {
  const uint64_t first = Down(host);
  const uint64_t end = host + bytes;
  // The pages that are the range's alone.
  const uint64_t whole = Up(host);
  const uint64_t whole_end = std::max(whole, Down(end));
  // A signal handler needs its stack.
  if (!MayBeMirrored(first, Up(end)) || (whole < whole_end && MayBeStack(whole, whole_end))) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  uint64_t allocation;
  WARPLINE_TRY(memory_->Allocate(on, nullptr, Up(end) - first + kPage, &allocation));
  Range range;
  range.host = host;
  range.device = Up(allocation) + (host - first);
  range.bytes = bytes;
  range.kind = Kind::kRegistered;
  range.allocation = allocation;
  CUresult added = Start() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (added == CUDA_SUCCESS) {
    MutexLock lock(&mu_);
    const auto next = entries_.lower_bound(host);
    const bool overlaps =
        (next != entries_.end() && next->first < end) ||
        (next != entries_.begin() &&
         std::prev(next)->second.range.host + std::prev(next)->second.range.bytes > host);
    if (overlaps) added = CUDA_ERROR_NOT_SUPPORTED;
    if (!overlaps) AddLocked(range, whole, whole_end - whole, Mirror::kHost);
  }
  if (added != CUDA_SUCCESS) {
    memory_->Free(allocation);
    return added;
  }
  Renew();
  *device = range.device;
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Follow(uint64_t host, uint64_t bytes) {
  if (!Start()) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.host = range.device = host;
  range.bytes = bytes;
  range.kind = Kind::kMapped;
  {
    MutexLock lock(&mu_);
    AddLocked(range, host, Up(bytes), Mirror::kHost);
  }
  Renew();
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::AddVariables(const Module* module, uint64_t device, uint64_t bytes,
                                      uint64_t wanted, uint64_t* host) {
  const CUresult placed = PlaceVariable({module, {device, device + bytes}}, wanted, host);
  if (placed == CUDA_SUCCESS) Renew();
  // Not in the turn: what the application has called for messages may touch managed memory.
  if (placed == CUDA_SUCCESS && *host != device) {
    if (const LogPermit permit = CallLog().Ask(kManagedLine)) {
      permit.Warning(
          "managed variables have another address in this process than on the device; "
          "kernels find them by their parameters alone");
    }
  } else if (placed == CUDA_ERROR_OUT_OF_MEMORY) {
    if (const LogPermit permit = CallLog().Ask(kManagedLine)) {
      permit.Warning("no room in this process for a managed variable");
    }
  }
  return placed;
}

CUresult MirroredMemory::PlaceVariable(const Variable& added, uint64_t wanted, uint64_t* host) {
  const uint64_t device = added.extent.begin;
  const Turn turn(this);
  std::vector<Entries::iterator> parts;
  {
    MutexLock lock(&mu_);
    parts = VariablesAt(Down(device), Up(added.extent.end));
    if (!parts.empty()) {
      const Entry& entry = parts[0]->second;
      *host = entry.range.host + (device - entry.range.device);
      const bool known = std::any_of(
          entry.variables.begin(), entry.variables.end(), [&](const Variable& variable) {
            return variable.extent.begin <= device && added.extent.end <= variable.extent.end;
          });
      if (known) return CUDA_SUCCESS;
    }
  }
  const CUresult placed =
      parts.empty() ? AddVariableRange(added, wanted, host) : GrowVariables(parts, added);
  if (placed != CUDA_SUCCESS || wanted == 0) return placed;
  RestoreValues(wanted, *host, added.extent.end - added.extent.begin);
  return placed;
}

bool MirroredMemory::MapVariables(uint64_t at, uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    if (lost_pages_.TakeAt(at, bytes)) {
      return MapPages(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
    }
  }
  return MapPages(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
}

void MirroredMemory::KeepValues(const std::vector<Mirror::Extent>& variables) {
  for (const Mirror::Extent& variable : variables) {
    Entry* entry;
    {
      MutexLock lock(&mu_);
      entry = FindHost(variable.begin);
    }
    const uint64_t bytes = variable.end - variable.begin;
    if (bytes > kMostKeptBytes || entry == nullptr ||
        entry->mirror->Fetch(variable.begin - entry->mirror->host(), bytes,
                             /*write=*/false) != CUDA_SUCCESS) {
      continue;
    }
    std::string value(reinterpret_cast<const char*>(variable.begin), bytes);
    MutexLock lock(&mu_);
    kept_[variable.begin] = std::move(value);
  }
}

void MirroredMemory::RestoreValues(uint64_t before, uint64_t host, uint64_t bytes) {
  std::map<uint64_t, std::string> values;
  Entry* entry;
  {
    MutexLock lock(&mu_);
    const auto first = kept_.lower_bound(before);
    const auto end = kept_.lower_bound(before + bytes);
    values.insert(first, end);
    kept_.erase(first, end);
    entry = FindHost(host);
  }
  for (const auto& [address, value] : values) {
    if (entry == nullptr || value.size() > before + bytes - address) continue;
    const uint64_t now = host + (address - before);
    // Before any work, the device gets the bytes of before.
    if (entry->mirror->Fetch(now - entry->mirror->host(), value.size(), /*write=*/true) !=
        CUDA_SUCCESS) {
      continue;
    }
    std::memcpy(reinterpret_cast<void*>(now), value.data(), value.size());
  }
}

CUresult MirroredMemory::AddVariableRange(const Variable& added, uint64_t wanted, uint64_t* host) {
  if (!Start()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t device = added.extent.begin;
  const uint64_t bytes = added.extent.end - device;
  uint64_t at = wanted != 0 ? wanted : device;
  const auto pages = [&] { return Up(at + bytes) - Down(at); };
  if (!MapVariables(Down(at), pages())) {
    at = device;
    void* elsewhere = mmap(nullptr, pages(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (elsewhere == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    at = reinterpret_cast<uint64_t>(elsewhere) + device % kPage;
  }
  Range range;
  range.host = at;
  range.device = device;
  range.bytes = bytes;
  range.kind = Kind::kVariables;
  MutexLock lock(&mu_);
  AddLocked(range, Down(at), pages(), Mirror::kDevice, {added});
  *host = range.host;
  return CUDA_SUCCESS;
}

std::vector<MirroredMemory::Entries::iterator> MirroredMemory::VariablesAt(uint64_t begin,
                                                                           uint64_t end) {
  std::vector<Entries::iterator> found;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& entry = it->second;
    const uint64_t pages = entry.mirror->device();
    if (entry.range.kind == Kind::kVariables && pages < end &&
        begin < pages + entry.mirror->bytes()) {
      found.push_back(it);
    }
  }
  return found;
}

// Replaces the parts by one mirror of all their variables. The host then has the bytes of all of
// them; they were hardly used, since programs ask for their variables when they start.
CUresult MirroredMemory::GrowVariables(const std::vector<Entries::iterator>& parts,
                                       const Variable& added) {
  const Range& known = parts[0]->second.range;
  const uint64_t apart = known.host - known.device;  // May wrap.
  std::vector<Variable> variables = {added};
  uint64_t first = Down(added.extent.begin);
  uint64_t end = Up(added.extent.end);
  for (const auto& it : parts) {
    const Entry& part = it->second;
    if (part.range.host - part.range.device != apart) return CUDA_ERROR_NOT_SUPPORTED;
    first = std::min(first, part.mirror->device());
    end = std::max(end, part.mirror->device() + part.mirror->bytes());
    variables.insert(variables.end(), part.variables.begin(), part.variables.end());
  }
  // The bytes between the parts are new.
  std::vector<Mirror::Extent> gaps;
  uint64_t next = first;
  for (const auto& part : parts) {
    const uint64_t pages = part->second.mirror->device();
    if (next < pages) gaps.push_back({next, pages});
    next = pages + part->second.mirror->bytes();
  }
  if (next < end) gaps.push_back({next, end});
  for (size_t i = 0; i < gaps.size(); ++i) {
    const uint64_t bytes = gaps[i].end - gaps[i].begin;
    if (MapVariables(gaps[i].begin + apart, bytes)) continue;
    while (i-- > 0) syscall(SYS_munmap, gaps[i].begin + apart, gaps[i].end - gaps[i].begin);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const auto& part : parts) {
    const CUresult fetched = part->second.mirror->GiveToHost();
    if (fetched != CUDA_SUCCESS) return fetched;
  }
  const CUresult pulled = streams_.Pull(reinterpret_cast<void*>(added.extent.begin + apart),
                                        added.extent.begin, added.extent.end - added.extent.begin);
  if (pulled != CUDA_SUCCESS) return pulled;
  MutexLock lock(&mu_);
  for (const auto& part : parts) EndLocked(part);
  Range range;
  range.device = end;
  uint64_t last = 0;
  for (const Variable& variable : variables) {
    range.device = std::min(range.device, variable.extent.begin);
    last = std::max(last, variable.extent.end);
  }
  range.host = range.device + apart;
  range.bytes = last - range.device;
  range.kind = Kind::kVariables;
  AddLocked(range, first + apart, end - first, Mirror::kHost, std::move(variables));
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Free(Kind kind, uint64_t host) {
  const bool keeps_bytes = kind == Kind::kRegistered;
  if (kind != Kind::kManaged) AwaitWork();
  uint64_t allocation;
  {
    const Turn turn(this);
    Entries::iterator it;
    {
      MutexLock lock(&mu_);
      it = entries_.find(kind == Kind::kRegistered ? host : Down(host));
      if (it == entries_.end() || it->second.range.host != host || it->second.range.kind != kind) {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    Mirror& mirror = *it->second.mirror;
    if (keeps_bytes) mirror.GiveToHost();
    std::vector<MirrorEdge*> edges;
    AddGiven(&it->second.edges, &edges);
    TakeEdges(edges);
    MutexLock lock(&mu_);
    allocation = it->second.range.allocation;
    if (!keeps_bytes) ReserveAgain(mirror.host(), mirror.bytes());
    EndLocked(it);
  }
  return allocation == 0 ? CUDA_SUCCESS : memory_->Free(allocation);
}

void MirroredMemory::FreeAllOf(const Context* context) {
  std::vector<uint64_t> allocations;
  {
    const Turn turn(this);
    MutexLock lock(&mu_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto entry = it++;
      const Range& range = entry->second.range;
      if (range.kind != Kind::kManaged || range.context != context) continue;
      ReserveAgain(entry->second.mirror->host(), entry->second.mirror->bytes());
      allocations.push_back(range.allocation);
      EndLocked(entry);
    }
  }
  for (const uint64_t allocation : allocations) memory_->Free(allocation);
}

void MirroredMemory::EndVariables(const Module* module, const std::vector<Mirror::Extent>* managed,
                                  std::vector<Mirror::Extent>* kept) {
  const Turn turn(this);
  if (managed != nullptr) KeepValues(*managed);
  MutexLock lock(&mu_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    std::vector<Variable>& variables = entry->second.variables;
    const auto of_module = [&](const Variable& v) { return v.module == module; };
    if (std::erase_if(variables, of_module) == 0) continue;
    if (!variables.empty()) {
      entry->second.mirror->SetExtents(Extents(variables));
      continue;
    }
    const uint64_t begin = entry->second.mirror->host();
    const uint64_t bytes = entry->second.mirror->bytes();
    if (managed != nullptr) {
      ReserveAgain(begin, bytes);
      kept->push_back({begin, begin + bytes});
    } else {
      syscall(SYS_munmap, begin, bytes);
    }
    EndLocked(entry);
  }
}

void MirroredMemory::ForgetVariablesOf(const Module* module) {
  EndVariables(module, nullptr, nullptr);
  MutexLock lock(&mu_);
  for (auto it = lost_.begin(); it != lost_.end();) {
    const auto lost = it++;
    if (lost->second.module != module) continue;
    // Pages that are variables again are no longer among these.
    const uint64_t begin = lost->first;
    const uint64_t end = begin + lost->second.bytes;
    if (lost_pages_.TakeAt(begin, end - begin)) {
      syscall(SYS_munmap, begin, end - begin);
      kept_.erase(kept_.lower_bound(begin), kept_.lower_bound(end));
    }
    lost_.erase(lost);
  }
  lost_count_.store(static_cast<int>(lost_.size()));
}

void MirroredMemory::LoseVariablesOf(const Module* module,
                                     const std::vector<Mirror::Extent>& managed,
                                     std::function<void()> load) {
  std::vector<Mirror::Extent> kept;
  EndVariables(module, &managed, &kept);
  MutexLock lock(&mu_);
  for (const Mirror::Extent& pages : kept) {
    lost_[pages.begin] = {module, pages.end - pages.begin, load};
    lost_pages_.Add(pages.begin, pages.end - pages.begin);
  }
  lost_count_.store(static_cast<int>(lost_.size()));
  SetSpanLocked();
}

std::map<uint64_t, MirroredMemory::Lost>::iterator MirroredMemory::LostAt(uint64_t address) {
  const auto after = lost_.upper_bound(address);
  if (after == lost_.begin()) return lost_.end();
  const auto it = std::prev(after);
  return address - it->first < it->second.bytes ? it : lost_.end();
}

bool MirroredMemory::FindLost(uint64_t address) {
  std::function<void()> load;
  uint64_t pages = 0;
  {
    MutexLock lock(&mu_);
    const auto it = LostAt(address);
    if (it == lost_.end()) return false;
    if (it->second.loading) {
      while (LostAt(address) != lost_.end()) moved_.Wait(&mu_);
      return true;
    }
    it->second.loading = true;
    load = it->second.load;
    pages = it->first;
  }
  load();
  MutexLock lock(&mu_);
  lost_.erase(pages);
  lost_count_.store(static_cast<int>(lost_.size()));
  moved_.NotifyAll();
  return true;
}

void MirroredMemory::FindAllLost() {
  while (true) {
    uint64_t first;
    {
      MutexLock lock(&mu_);
      if (lost_.empty()) return;
      first = lost_.begin()->first;
    }
    FindLost(first);
  }
}

// ---- What an address is.

MirroredMemory::Entry* MirroredMemory::FindHost(uint64_t address) {
  auto it = entries_.upper_bound(address);
  if (it == entries_.begin()) return nullptr;
  --it;
  const Mirror& mirror = *it->second.mirror;
  return address - mirror.host() < mirror.bytes() ? &it->second : nullptr;
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

bool MirroredMemory::HasPages(uint64_t begin, uint64_t end) const {
  MutexLock lock(&mu_);
  const auto next = entries_.lower_bound(end);
  if (next == entries_.begin()) return false;
  const Entry& last = std::prev(next)->second;
  return std::max(last.mirror->host() + last.mirror->bytes(),
                  Up(last.range.host + last.range.bytes)) > begin;
}

bool MirroredMemory::has_edges() const {
  MutexLock lock(&mu_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return !entry.second.edges.empty(); });
}

bool MirroredMemory::IsManaged(uint64_t address) const {
  Range range;
  return Find(address, &range) && range.managed();
}

uint64_t MirroredMemory::Translate(uint64_t address) const {
  uint64_t device;
  {
    MutexLock lock(&mu_);
    const auto after = entries_.upper_bound(address);
    if (after == entries_.begin()) return address;
    const Range& range = std::prev(after)->second.range;
    if (address - range.host >= range.bytes) return address;
    device = range.device + (address - range.host);
    if (device == address || range.kind != Kind::kVariables) return device;
    const bool managed = std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return address - entry.second.range.device < entry.second.range.bytes;
    });
    if (managed) return device;
  }
  // A variable that is not managed may have been put where a managed one was before a reset.
  DeviceMemory::Range variable;
  return memory_->Find(address, &variable) ? address : device;
}

// ---- Attachment.

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

}  // namespace warpline::stub
