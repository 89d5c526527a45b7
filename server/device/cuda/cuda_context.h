// A worker's context on a real GPU: device::Context, call by call on the driver.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "proto/frames.h"
#include "server/device/cuda/cuda_group.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/device.h"

namespace warpline::device {

// How a copy names memory of the device, or host memory at the device's address.
inline CUmemorytype TypeOfDeviceEnd(uint64_t address) {
  return InHostArena(address) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
}

// Thread-safe, as the driver is. Every thread that calls gets the context made current, once as
// long as it calls no other.
class CudaContext : public Context {
 public:
  // One for each of `ordinals`, which form a group.
  static absl::StatusOr<std::vector<std::unique_ptr<Context>>> Open(const DriverApi* api,
                                                                    absl::Span<const int> ordinals);
  ~CudaContext() override;

  uint32_t peers() const override { return group_->members()[place_].reaches; }
  CudaResult ReserveArena(uint64_t base, uint64_t size) override;
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult MapSink(uint64_t va, uint64_t bytes) override;
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes) override;
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) override;
  CudaResult AllocStaging(size_t bytes, void** host) override;
  void FreeStaging(void* host) override;

  CudaResult CreateStream(uint32_t flags, int priority, StreamId* stream) override;
  CudaResult DestroyStream(StreamId stream) override;

  CudaResult CreateEvent(uint32_t flags, EventId* event) override;
  CudaResult DestroyEvent(EventId event) override;
  CudaResult RecordEvent(EventId event, StreamId stream) override;
  CudaResult WaitEvent(StreamId stream, EventId event) override;
  CudaResult QueryEvent(EventId event) override;
  CudaResult ElapsedMs(EventId start, EventId end, float* ms) override;

  CudaResult Launch(KernelId kernel, const LaunchConfig& config, absl::Span<const std::byte> params,
                    StreamId stream) override;
  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) override;
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) override;
  CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) override;
  CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                    StreamId stream) override;
  CudaResult MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width, size_t columns,
                        size_t rows, StreamId stream) override;
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             StreamId stream) override;
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               StreamId stream) override;
  CudaResult CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src, const BoxExtent& extent,
                             StreamId stream) override;
  CudaResult MemOps(absl::Span<const MemOp> operations, StreamId stream) override;
  CudaResult SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) override;

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override;
  CudaResult LaunchGraph(GraphId graph, StreamId stream) override;
  CudaResult DestroyGraph(GraphId graph) override;
  CudaResult CreateFrame(FrameId* frame) override;
  CudaResult AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                            uint64_t* conditional) override;
  CudaResult FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) override;
  CudaResult CreateGraphOf(FrameId frame, GraphId* graph) override;
  CudaResult DestroyFrame(FrameId frame) override;

  CudaResult FlushOutput() override;
  CudaResult GetLimit(int limit, uint64_t* value) override;
  CudaResult SetLimit(int limit, uint64_t value) override;

  CudaResult LoadModule(std::string_view image, ModuleId* module) override;
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options, JitLog* log,
                           ModuleId* module) override;
  CudaResult CheckModule(ModuleId module) override;
  CudaResult UnloadModule(ModuleId module) override;
  CudaResult Kernels(ModuleId module, std::vector<std::string>* names) override;
  CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) override;
  CudaResult Params(KernelId kernel, std::vector<ParamLayout>* params) override;
  CudaResult GetKernelAttribute(KernelId kernel, int attribute, int* value) override;
  CudaResult SetKernelAttribute(KernelId kernel, int attribute, int value) override;
  CudaResult FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override;
  CudaResult TakeBlock(uint64_t* address) override;
  void FreeBlock(uint64_t address) override;
  CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult UnmapHost(uint64_t va, uint64_t bytes) override;
  CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) override;
  CudaResult MaxActiveBlocks(KernelId kernel, int block_threads, size_t dynamic_shared_bytes,
                             uint32_t flags, int* blocks) override;
  CudaResult MaxActiveClusters(KernelId kernel, const LaunchConfig& config, int* clusters) override;
  CudaResult MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) override;

  CudaResult CreateLink(absl::Span<const JitOption> options, LinkId* link) override;
  CudaResult AddToLink(LinkId link, uint32_t type, std::string_view data, const std::string& name,
                       absl::Span<const JitOption> options, JitLog* log) override;
  CudaResult CompleteLink(LinkId link, std::string* code, JitLog* log) override;
  void DestroyLink(LinkId link) override;

  CudaResult EncodeTensorMap(const TensorMap& request, TensorMapBytes* map) override;

  CudaResult CreateArray(ArrayShape* shape, ArrayId* array) override;
  CudaResult DestroyArray(ArrayId array) override;
  CudaResult ArrayLevel(ArrayId array, uint32_t level, ArrayShape* shape, ArrayId* part) override;
  CudaResult ArrayPlane(ArrayId array, uint32_t plane, ArrayShape* shape, ArrayId* part) override;
  CudaResult CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                       StreamId stream) override;
  CudaResult CreateTexture(const Texture& texture, uint64_t* object) override;
  CudaResult DestroyTexture(uint64_t object, bool is_surface) override;

 private:
  CudaContext(const DriverApi* api, std::shared_ptr<CudaGroup> group, uint32_t place)
      : api_(api),
        group_(std::move(group)),
        place_(place),
        device_(group_->members()[place].device),
        context_(group_->members()[place].context) {}

  // Makes the context current on the calling thread.
  void Enter();
  // In the driver's terms. CUDA_ERROR_INVALID_VALUE for what is not of the arena.
  CUresult Translate(absl::Span<const MemOp> operations,
                     std::vector<CUstreamBatchMemOpParams>* native) const;
  // Issues a copy of boxes, of which ends may be foreign: `to` and `from` are their contexts.
  CUresult Copy3D(const CUDA_MEMCPY3D& copy, CUcontext to, CUcontext from, CUstream stream);
  CUcontext ContextOf(const ArrayEnd& end) const;
  void DropSinks(uint64_t va, uint64_t bytes);

  const DriverApi* const api_;
  const std::shared_ptr<CudaGroup> group_;
  const uint32_t place_;  // Among its members.
  const CUdevice device_;
  const CUcontext context_;
  std::atomic<CUstream> idle_stream_{nullptr};  // Nothing runs on it. Created when first needed.
  Mutex sinks_mu_;
  CUmemGenericAllocationHandle sink_ = 0;                // Written with sinks_mu_.
  std::set<uint64_t> sinks_ ABSL_GUARDED_BY(sinks_mu_);  // Granules at which it is mapped.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_
