// The part of VirtualMemory that gets, keeps and gives back memory handles.
#include <algorithm>
#include <utility>

#include "client_stub/core/memory/shared_descriptor.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
// How many bytes of handles that nothing refers to are kept for later.
constexpr uint64_t kMostKept = 64 * kMiB;
// A program that makes many handles of one size gets several at a time.
constexpr uint64_t kMostAtOnce = 16;
constexpr uint64_t kMostAtOnceBytes = 256 * kMiB;
constexpr uint64_t kQuotaPart = 32;

}  // namespace

CudaResult VirtualMemory::Create(uint32_t device, uint64_t bytes, uint64_t handle_types,
                                 uint64_t* handle) {
  if (bytes == 0 || bytes % kChunkGranularity != 0) return CudaResult::kInvalidValue;
  if (bytes > terms_.device(device).total_bytes) return CudaResult::kOutOfMemory;
  const CudaResult result = Obtain({device, bytes}, handle);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  Handle& made = handles_[*handle];
  made.references = 1;
  made.handle_types = handle_types;
  made.charged = true;
  allocators_[device]->Charge(bytes);
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Obtain(const Kind& kind, uint64_t* handle) {
  {
    MutexLock lock(&mu_);
    Collect();
    if (TakeKept(kind, handle)) return CudaResult::kSuccess;
  }
  MutexLock create(&create_mu_);
  CudaResult result = Ask(kind, handle);
  // Memory may be held for other uses, or by work that has yet to retire.
  for (const bool wait : {false, true}) {
    if (result != CudaResult::kOutOfMemory) return result;
    const CudaResult returned = allocators_[kind.first]->ReturnUnused(wait);
    if (returned != CudaResult::kSuccess) return returned;
    ReturnUnused(kind.first);
    result = Ask(kind, handle);
  }
  return result;
}

bool VirtualMemory::TakeKept(const Kind& kind, uint64_t* handle) {
  const auto it = kept_.find(kind);
  if (it == kept_.end() || it->second.empty()) return false;
  *handle = it->second.back();
  it->second.pop_back();
  kept_bytes_ -= kind.second;
  AddHandle(*handle, kind.second);
  return true;
}

uint64_t VirtualMemory::NewHandle(uint32_t device, uint64_t count) {
  const uint64_t first = next_handle_;
  next_handle_ += count;
  return HandleOnDevice(device, first);
}

CudaResult VirtualMemory::Ask(const Kind& kind, uint64_t* handle) {
  const auto [device, bytes] = kind;
  uint64_t& asked = ask_count_[kind];
  const uint64_t quota = terms_.device(device).total_bytes;
  const uint64_t most =
      std::min({kMostAtOnce, kMostAtOnceBytes / bytes, quota / kQuotaPart / bytes});
  const uint64_t count = std::max<uint64_t>(1, std::min(asked, most));
  uint64_t first;
  {
    MutexLock lock(&mu_);
    // Another thread may have got more handles than it needed.
    if (TakeKept(kind, handle)) return CudaResult::kSuccess;
    first = NewHandle(device, count);
  }
  uint64_t created = 0;
  const CudaResult result = memory_->CreateHandles(first, bytes, count, &created);
  if (result != CudaResult::kSuccess) {
    asked = 0;
    return result;
  }
  asked = count * 2;
  MutexLock lock(&mu_);
  for (uint64_t i = created; i-- > 1;) {
    kept_[kind].push_back(first + i);
    kept_bytes_ += bytes;
  }
  *handle = first;
  AddHandle(first, bytes);
  return CudaResult::kSuccess;
}

void VirtualMemory::AddHandle(uint64_t handle, uint64_t bytes) { handles_[handle].bytes = bytes; }

CudaResult VirtualMemory::Release(uint64_t handle) {
  MutexLock lock(&mu_);
  Collect();
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0) return CudaResult::kInvalidValue;
  --it->second.references;
  Settle(handle);
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Retain(uint64_t address, uint64_t* handle) {
  MutexLock lock(&mu_);
  const auto it = MappingAt(address);
  if (it == mappings_.end()) return CudaResult::kInvalidValue;
  ++handles_[it->second.handle].references;
  *handle = it->second.handle;
  return CudaResult::kSuccess;
}

bool VirtualMemory::FindHandle(uint64_t handle, uint64_t* handle_types) {
  MutexLock lock(&mu_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0) return false;
  *handle_types = it->second.handle_types;
  return true;
}

void VirtualMemory::Collect() {
  std::vector<uint64_t> done;
  {
    MutexLock lock(&done_mu_);
    done.swap(done_);
  }
  for (const uint64_t token : done) {
    const auto it = leaving_.find(token);
    if (it == leaving_.end()) continue;
    const Leaving left = it->second;
    leaving_.erase(it);
    leaving_ranges_.erase(left.va);
    --handles_[left.handle].leaving;
    Settle(left.handle);
    const auto reserved = std::prev(reservations_.upper_bound(left.va));
    if (--reserved->second.leaving == 0 && reserved->second.freed) {
      AllocatorAt(reserved->first)->ReleaseAddresses(reserved->first);
      reservations_.erase(reserved);
    }
  }
  if (!exported_.empty()) CollectExports();
}

void VirtualMemory::CollectExports() {
  std::vector<uint64_t> handles;
  handles.swap(exported_);
  for (const uint64_t number : handles) {
    Handle& handle = handles_[number];
    std::erase_if(handle.exported, [](const UniqueFd& end) { return NobodyHolds(end.get()); });
    if (handle.exported.empty()) {
      Settle(number);
    } else {
      exported_.push_back(number);
    }
  }
}

void VirtualMemory::Settle(uint64_t number) {
  const auto it = handles_.find(number);
  if (it == handles_.end()) return;
  Handle& handle = it->second;
  if (handle.references > 0 || handle.mapped > 0) return;
  if (std::exchange(handle.charged, false)) AllocatorOf(number)->Discharge(handle.bytes);
  if (handle.leaving > 0 || !handle.exported.empty()) return;
  const uint64_t bytes = handle.bytes;
  // Memory that another session may have open must not be used again for something else.
  const bool shared = handle.opened || !handle.token.empty();
  handles_.erase(it);
  if (shared || kept_bytes_ + bytes > kMostKept) {
    memory_->ReturnHandle(number);
  } else {
    kept_[{DeviceOfHandle(number), bytes}].push_back(number);
    kept_bytes_ += bytes;
  }
}

void VirtualMemory::ReturnUnused(uint32_t device) {
  MutexLock lock(&mu_);
  Collect();
  for (auto& [kind, handles] : kept_) {
    if (kind.first != device) continue;
    for (const uint64_t handle : handles) memory_->ReturnHandle(handle);
    kept_bytes_ -= handles.size() * kind.second;
    handles.clear();
  }
}

// --- Between processes.

CudaResult VirtualMemory::OfferedToken(uint64_t handle, std::string* token, uint64_t* bytes) {
  {
    MutexLock lock(&mu_);
    const auto it = handles_.find(handle);
    if (it == handles_.end() || it->second.references == 0) return CudaResult::kInvalidValue;
    *token = it->second.token;
    *bytes = it->second.bytes;
    if (!token->empty()) return CudaResult::kSuccess;
  }
  SharedMemory shared;
  const CudaResult result = memory_->Share({.handle = handle}, &shared);
  if (result != CudaResult::kSuccess) return result;
  *token = shared.token;
  MutexLock lock(&mu_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return CudaResult::kInvalidValue;
  it->second.token = *token;
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Export(uint64_t handle, UniqueFd* descriptor) {
  SharedDescriptor what;
  const CudaResult result = OfferedToken(handle, &what.token, &what.bytes);
  if (result != CudaResult::kSuccess) return result;
  what.kind = SharedDescriptor::Kind::kMemory;
  what.device = terms_.device(DeviceOfHandle(handle)).uuid;
  UniqueFd end;
  if (!MakeSharedDescriptor(what, &end, descriptor)) return CudaResult::kOperatingSystem;
  MutexLock lock(&mu_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return CudaResult::kInvalidValue;
  if (it->second.exported.empty()) exported_.push_back(handle);
  it->second.exported.push_back(std::move(end));
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Import(int descriptor, uint64_t* handle) {
  SharedDescriptor what;
  // The driver returns this for a descriptor that is not of its memory.
  if (!ReadSharedDescriptor(descriptor, &what) || what.kind != SharedDescriptor::Kind::kMemory) {
    return CudaResult::kUnknown;
  }
  uint32_t device;
  if (!FindDeviceOf(terms_, what.device, &device)) return CudaResult::kInvalidValue;
  uint64_t number;
  {
    MutexLock lock(&mu_);
    number = NewHandle(device);
  }
  const CudaResult result = memory_->OpenShared(what.token, number, what.bytes);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  AddHandle(number, what.bytes);
  Handle& opened = handles_[number];
  opened.references = 1;
  opened.opened = true;
  opened.handle_types = kPosixDescriptor;
  *handle = number;
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::OpenShared(uint32_t device, const std::string& token, uint64_t bytes,
                                     uint64_t* address) {
  uint64_t number;
  {
    MutexLock lock(&mu_);
    number = NewHandle(device);
  }
  CudaResult result = memory_->OpenShared(token, number, bytes);
  if (result != CudaResult::kSuccess) return result;
  {
    MutexLock lock(&mu_);
    AddHandle(number, bytes);
    handles_[number].references = 1;
    handles_[number].opened = true;
  }
  result = Reserve(device, bytes, 0, 0, address);
  if (result == CudaResult::kSuccess) {
    result = Map(*address, bytes, number);
    if (result == CudaResult::kSuccess) result = SetAccess(*address, bytes, device, kReadWrite);
    if (result != CudaResult::kSuccess) FreeAddresses(*address, bytes);
  }
  // The mapping keeps the handle.
  Release(number);
  return result;
}

CudaResult VirtualMemory::CloseShared(uint64_t address) {
  Mapping mapping;
  if (!Find(address, &mapping) || mapping.base != address) return CudaResult::kInvalidValue;
  const CudaResult result = Unmap(address, mapping.bytes);
  return result == CudaResult::kSuccess ? FreeAddresses(address, mapping.bytes) : result;
}

}  // namespace warpline::stub
