// The CPU device's context: memory, streams, modules and launches of one worker.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/context/cpu_group.h"
#include "server/device/cpu/execution/grid_runner.h"
#include "server/device/cpu/memory/array_store.h"
#include "server/device/cpu/memory/device_heap.h"
#include "server/device/cpu/memory/host_budget.h"
#include "server/device/cpu/memory/kept_bytes.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/cpu_module.h"
#include "server/device/cpu/output/print_buffer.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/device.h"

namespace warpline::cpu {

// Thread-safe. Destroying it drops queued work and stops running kernels, those of the contexts
// that were opened with it too.
class CpuContext : public device::Context {
 public:
  // `cores`: of the host, to run blocks on. `place`: its number among the contexts of `group`.
  CpuContext(int cores, std::shared_ptr<CpuGroup> group, uint32_t place);
  ~CpuContext() override;

  uint32_t peers() const override { return (uint32_t{2} << (group_->contexts - 1)) - 1; }

  CudaResult ReserveArena(uint64_t base, uint64_t size) override;
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult MapSink(uint64_t va, uint64_t bytes) override { return memory_.MapSink(va, bytes); }
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes) override;
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, device::MemoryAccess access) override {
    return memory_.SetChunkAccess(va, bytes, access);
  }
  CudaResult AllocStaging(size_t bytes, void** host) override;
  void FreeStaging(void* host) override;

  CudaResult CreateStream(uint32_t flags, int priority, device::StreamId* stream) override;
  CudaResult DestroyStream(device::StreamId stream) override;

  CudaResult CreateEvent(uint32_t flags, device::EventId* event) override;
  CudaResult DestroyEvent(device::EventId event) override;
  CudaResult RecordEvent(device::EventId event, device::StreamId stream) override;
  CudaResult WaitEvent(device::StreamId stream, device::EventId event) override;
  CudaResult QueryEvent(device::EventId event) override;
  CudaResult ElapsedMs(device::EventId start, device::EventId end, float* ms) override;

  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    absl::Span<const std::byte> params, device::StreamId stream) override;
  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes,
                          device::StreamId stream) override;
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes,
                            device::StreamId stream) override;
  CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes,
                          device::StreamId stream) override;
  CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                    device::StreamId stream) override;
  CudaResult MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width, size_t columns,
                        size_t rows, device::StreamId stream) override;
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             device::StreamId stream) override;
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               device::StreamId stream) override;
  CudaResult CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src, const BoxExtent& extent,
                             device::StreamId stream) override;
  CudaResult MemOps(absl::Span<const device::MemOp> operations, device::StreamId stream) override;

  CudaResult FlushOutput() override;
  CudaResult GetLimit(int limit, uint64_t* value) override;
  CudaResult SetLimit(int limit, uint64_t value) override;

  CudaResult LoadModule(std::string_view image, device::ModuleId* module) override;
  // The options are for compilers; what is wrong with the image goes into the log.
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const device::JitOption> options,
                           device::JitLog* log, device::ModuleId* module) override;
  CudaResult UnloadModule(device::ModuleId module) override;
  CudaResult Kernels(device::ModuleId module, std::vector<std::string>* names) override;
  CudaResult FindKernel(device::ModuleId module, const std::string& name,
                        device::KernelId* kernel) override;
  CudaResult Params(device::KernelId kernel, std::vector<device::ParamLayout>* params) override;
  CudaResult GetKernelAttribute(device::KernelId kernel, int attribute, int* value) override;
  CudaResult SetKernelAttribute(device::KernelId kernel, int attribute, int value) override;
  CudaResult FindGlobal(device::ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override;
  CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult UnmapHost(uint64_t va, uint64_t bytes) override;
  CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) override;
  CudaResult MaxActiveBlocks(device::KernelId kernel, int block_threads,
                             size_t dynamic_shared_bytes, uint32_t flags, int* blocks) override;

  // object_commands.cc
  CudaResult CreateLink(absl::Span<const device::JitOption> options, device::LinkId* link) override;
  CudaResult AddToLink(device::LinkId link, uint32_t type, std::string_view data,
                       const std::string& name, absl::Span<const device::JitOption> options,
                       device::JitLog* log) override;
  CudaResult CompleteLink(device::LinkId link, std::string* code, device::JitLog* log) override;
  void DestroyLink(device::LinkId link) override;
  CudaResult CreateArray(device::ArrayShape* shape, device::ArrayId* array) override;
  CudaResult DestroyArray(device::ArrayId array) override;
  CudaResult ArrayLevel(device::ArrayId array, uint32_t level, device::ArrayShape* shape,
                        device::ArrayId* part) override;
  CudaResult ArrayPlane(device::ArrayId array, uint32_t plane, device::ArrayShape* shape,
                        device::ArrayId* part) override;
  CudaResult CopyArray(const device::ArrayEnd& to, const device::ArrayEnd& from,
                       const BoxExtent& extent, device::StreamId stream) override;

 private:
  // The number of a stream among those of the group.
  uint64_t NumberOf(device::StreamId stream) const;
  // One end of a copy with arrays, and what keeps it.
  struct FoundEnd {
    std::shared_ptr<CpuArray> array;
    bool on_device = false;
    BoxPlace place;
  };
  bool FindEnd(const device::ArrayEnd& end, const BoxExtent& extent, FoundEnd* found);
  CudaResult CopyBox(const BoxPlace& dst, bool dst_on_device, const BoxPlace& src,
                     bool src_on_device, const BoxExtent& extent, device::StreamId stream);
  // Returns when a wait is over, or nobody will be told any more.
  CudaResult RunMemOp(const device::MemOp& op);
  // A kernel that has been looked up.
  struct KernelHandle {
    uint64_t module = 0;
    std::shared_ptr<CpuModule> owner;
    std::shared_ptr<Kernel> kernel;
  };

  std::shared_ptr<CpuModule> FindModule(device::ModuleId module);
  KernelHandle Find(device::KernelId kernel);
  CudaResult CheckLaunch(const Kernel& kernel, const device::LaunchConfig& config,
                         size_t param_bytes) const;
  // Blocks that one multiprocessor holds.
  static uint64_t ResidentBlocks(const Kernel& kernel, uint64_t threads, uint64_t dynamic_shared);
  CudaResult RunKernel(const KernelHandle& handle, const device::LaunchConfig& config,
                       absl::Span<const std::byte> params);

  const int cores_;
  const std::shared_ptr<CpuGroup> group_;
  const uint32_t place_;
  MemoryMap& memory_;
  ArrayStore& arrays_;
  StreamSet& streams_;
  GridRunner grids_;
  PrintBuffer output_;
  DeviceHeap heap_{&memory_};
  HostBudget budget_;
  KeptBytes kept_;
  std::atomic<uint64_t> stack_bytes_;
  std::atomic<uint64_t> pending_launches_;
  std::atomic<uint64_t> l2_fetch_bytes_;
  std::atomic<uint64_t> next_grid_{1};

  Mutex mu_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::unordered_map<uint64_t, std::shared_ptr<CpuModule>> modules_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, KernelHandle> kernels_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<uint64_t, std::string>, uint64_t> kernel_ids_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<void*, size_t> staging_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, std::string> links_ ABSL_GUARDED_BY(mu_);  // Their only input.
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_
