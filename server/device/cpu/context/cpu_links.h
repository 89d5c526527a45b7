// Linked code of the CPU device, which can link one piece at most.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LINKS_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/links.h"

namespace warpline::cpu {

// Thread-safe.
class CpuLinks : public virtual device::Links {
 public:
  explicit CpuLinks(CpuShared* shared) : memory_(shared->memory()), streams_(shared->streams()) {}

  CudaResult CreateLink(absl::Span<const device::JitOption> options, device::LinkId* link) override;
  CudaResult AddToLink(device::LinkId link, uint32_t type, std::string_view data,
                       const std::string& name, absl::Span<const device::JitOption> options,
                       device::JitLog* log) override;
  CudaResult CompleteLink(device::LinkId link, std::string* code, device::JitLog* log) override;
  void DestroyLink(device::LinkId link) override;

 private:
  MemoryMap& memory_;
  StreamSet& streams_;
  Mutex mu_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::unordered_map<uint64_t, std::string> links_ ABSL_GUARDED_BY(mu_);  // Inputs of links.
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LINKS_H_
