// Searches what leaves this process for addresses of page-locked memory.
#include <cstring>
#include <vector>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/pinned/pinned_memory.h"

namespace warpline::stub {
namespace {

// Calls `found` with each aligned word of `bytes`, which lie at `at`, that may be an address of
// memory that is the host's alone, or with every word, and with its place.
template <typename Found>
CUresult ForEachAddress(const HostMemory& host, bool all, uint64_t at, std::string_view bytes,
                        Found found) {
  uint64_t word;
  for (uint64_t i = -at % sizeof(word); i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    if (all || host.MayBeHosts(word)) WARPLINE_TRY(found(word, i));
  }
  return CUDA_SUCCESS;
}

void LogLine(const char* text) {
  if (const LogPermit permit = CallLog().Ask(kPinnedLine)) permit.Warning(text);
}

}  // namespace

void PinnedMemory::Explain(CudaResult error) {
  if (error != CudaResult::kIllegalAddress || !watches() || explained_.exchange(true)) return;
  LogLine(
      "a kernel used an address that no device memory has. This process has page-locked memory "
      "that "
      "the device was not given, since no kernel was seen to need it: if the kernel found its "
      "address in device memory, allocate it with cudaHostAllocMapped, or call "
      "cudaHostGetDevicePointer before the launch (docs/memory.md)");
}

CUresult PinnedMemory::BeforeLaunch(std::string_view* packed, std::string* own) {
  const std::string_view given = *packed;
  const bool all = parts_.mirrored->any_apart();
  WARPLINE_TRY(ForEachAddress(*parts_.host, all, 0, given, [&](uint64_t word, uint64_t at) {
    uint64_t device = word;
    const CUresult result = GiveAt(&device);
    // Managed variables may have another address there, too.
    if (all && device == word) device = parts_.mirrored->ToDevice(word);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      LogLine(
          "a kernel was given the address of registered memory that devices cannot be given: a "
          "file, shared memory or a stack");
      return CUDA_SUCCESS;
    }
    WARPLINE_TRY(result);
    // An address that points behind a range may be the first of the next one.
    uint64_t before = word - 1;
    if (parts_.host->HostsArena(before)) WARPLINE_TRY(GiveAt(&before));
    if (device == word) return CUDA_SUCCESS;
    if (own->empty()) own->assign(given);
    std::memcpy(own->data() + at, &device, sizeof(device));
    return CUDA_SUCCESS;
  }));
  if (!own->empty()) *packed = *own;
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::GiveNamed(uint64_t to, std::string_view bytes) {
  return ForEachAddress(*parts_.host, false, to, bytes, [&](uint64_t word, uint64_t) {
    return parts_.host->HostsArena(word) ? GiveAt(&word) : CUDA_SUCCESS;
  });
}

void PinnedMemory::Note(uint64_t to, std::string_view bytes) {
  if (parts_.host->hosts_in_arena() == 0) return;
  std::vector<uint64_t> found;
  ForEachAddress(*parts_.host, false, to, bytes, [&](uint64_t word, uint64_t) {
    if (parts_.host->HostsArena(word)) found.push_back(word);
    return CUDA_SUCCESS;
  });
  if (found.empty()) return;
  MutexLock lock(&mu_);
  noted_.insert(found.begin(), found.end());
  any_noted_.store(true, std::memory_order_release);
}

CUresult PinnedMemory::GiveNoted() {
  std::set<uint64_t> noted;
  {
    MutexLock lock(&mu_);
    noted.swap(noted_);
    any_noted_.store(false, std::memory_order_release);
  }
  for (uint64_t word : noted) {
    if (parts_.host->HostsArena(word)) WARPLINE_TRY(GiveAt(&word));
  }
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
