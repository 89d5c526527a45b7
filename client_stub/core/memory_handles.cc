// Memory handles: how VirtualMemory gets, keeps and gives them back.
#include <algorithm>
#include <utility>

#include "client_stub/core/shared_descriptor.h"
#include "client_stub/core/virtual_memory.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
// Of handles that nothing refers to: what stays for the next ones.
constexpr uint64_t kMostKept = 64 * kMiB;
// A program that makes many handles of one size gets more at a time.
constexpr uint64_t kMostAtOnce = 16;
constexpr uint64_t kMostAtOnceBytes = 256 * kMiB;
constexpr uint64_t kQuotaPart = 32;

}  // namespace

CudaResult VirtualMemory::Create(uint64_t bytes, uint64_t handle_types, uint64_t* handle) {
  if (bytes == 0 || bytes % kChunkGranularity != 0) return CudaResult::kInvalidValue;
  if (bytes > session_->device().total_bytes) return CudaResult::kOutOfMemory;
  const CudaResult result = Obtain(bytes, handle);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  Handle& made = handles_[*handle];
  made.references = 1;
  made.handle_types = handle_types;
  made.charged = true;
  allocator_->Charge(bytes);
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Obtain(uint64_t bytes, uint64_t* handle) {
  {
    MutexLock lock(&mu_);
    Collect();
    if (TakeKept(bytes, handle)) return CudaResult::kSuccess;
  }
  MutexLock create(&create_mu_);
  CudaResult result = Ask(bytes, handle);
  // Memory may be held for other uses, and then for work that has yet to retire.
  for (const bool wait : {false, true}) {
    if (result != CudaResult::kOutOfMemory) return result;
    const CudaResult returned = allocator_->ReturnUnused(wait);
    if (returned != CudaResult::kSuccess) return returned;
    ReturnUnused();
    result = Ask(bytes, handle);
  }
  return result;
}

bool VirtualMemory::TakeKept(uint64_t bytes, uint64_t* handle) {
  const auto it = kept_.find(bytes);
  if (it == kept_.end() || it->second.empty()) return false;
  *handle = it->second.back();
  it->second.pop_back();
  kept_bytes_ -= bytes;
  AddHandle(*handle, bytes);
  return true;
}

CudaResult VirtualMemory::Ask(uint64_t bytes, uint64_t* handle) {
  uint64_t& asked = ask_count_[bytes];
  const uint64_t most = std::min(
      {kMostAtOnce, kMostAtOnceBytes / bytes, session_->device().total_bytes / kQuotaPart / bytes});
  const uint64_t count = std::max<uint64_t>(1, std::min(asked, most));
  uint64_t first;
  {
    MutexLock lock(&mu_);
    // Another thread may have got more than it needed.
    if (TakeKept(bytes, handle)) return CudaResult::kSuccess;
    first = next_handle_;
    next_handle_ += count;
  }
  uint64_t created = 0;
  const CudaResult result = session_->CreateHandles(first, bytes, count, &created);
  if (result != CudaResult::kSuccess) {
    asked = 0;
    return result;
  }
  asked = count * 2;
  MutexLock lock(&mu_);
  for (uint64_t i = created; i-- > 1;) {
    kept_[bytes].push_back(first + i);
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
      allocator_->ReleaseAddresses(reserved->first);
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
  if (std::exchange(handle.charged, false)) allocator_->Discharge(handle.bytes);
  if (handle.leaving > 0 || !handle.exported.empty()) return;
  const uint64_t bytes = handle.bytes;
  // What another session may have open must not become something else here.
  const bool shared = handle.opened || !handle.token.empty();
  handles_.erase(it);
  if (shared || kept_bytes_ + bytes > kMostKept) {
    session_->ReturnHandle(number);
  } else {
    kept_[bytes].push_back(number);
    kept_bytes_ += bytes;
  }
}

void VirtualMemory::ReturnUnused() {
  MutexLock lock(&mu_);
  Collect();
  for (const auto& [bytes, handles] : kept_) {
    for (const uint64_t handle : handles) session_->ReturnHandle(handle);
  }
  kept_.clear();
  kept_bytes_ = 0;
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
  const CudaResult result = session_->Share({.handle = handle}, &shared);
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
  // As the driver for what is no descriptor of its memory.
  if (!ReadSharedDescriptor(descriptor, &what) || what.kind != SharedDescriptor::Kind::kMemory) {
    return CudaResult::kUnknown;
  }
  uint64_t number;
  {
    MutexLock lock(&mu_);
    number = next_handle_++;
  }
  const CudaResult result = session_->OpenShared(what.token, number, what.bytes);
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

CudaResult VirtualMemory::OpenShared(const std::string& token, uint64_t bytes, uint64_t* address) {
  uint64_t number;
  {
    MutexLock lock(&mu_);
    number = next_handle_++;
  }
  CudaResult result = session_->OpenShared(token, number, bytes);
  if (result != CudaResult::kSuccess) return result;
  {
    MutexLock lock(&mu_);
    AddHandle(number, bytes);
    handles_[number].references = 1;
    handles_[number].opened = true;
  }
  result = Reserve(bytes, 0, 0, address);
  if (result == CudaResult::kSuccess) {
    result = Map(*address, bytes, number);
    if (result == CudaResult::kSuccess) result = SetAccess(*address, bytes, kReadWrite);
    if (result != CudaResult::kSuccess) FreeAddresses(*address, bytes);
  }
  // The mapping keeps it.
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
