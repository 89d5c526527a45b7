// The seam between Warpline and the hardware: what a worker and a keeper ask of a device.
//
// Two backends implement it: `cuda`, the real driver loaded at run time, and `cpu`, which executes
// PTX on the processor. The interface follows the CUDA driver API call by call, so that a backend
// returns the exact CUresult that CUDA would give; what it leaves out (handle tables, ordering
// between lanes, quotas) is the worker's and the server's business.
#ifndef WARPLINE_SERVER_DEVICE_DEVICE_H_
#define WARPLINE_SERVER_DEVICE_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "server/device/objects.h"

namespace warpline::device {

// Objects of a backend, meaningful only to the Context that made them; events also to those that
// were opened with it.
enum class StreamId : uint64_t {};
enum class EventId : uint64_t {};
enum class ModuleId : uint64_t {};
enum class KernelId : uint64_t {};
enum class GraphId : uint64_t {};
enum class FrameId : uint64_t {};

// CUDA's legacy default stream: it synchronizes with every blocking stream of its context.
inline constexpr StreamId kLegacyStream{1};

// What an application may ask about a device. Ids and values are those of CUdevice_attribute.
struct DeviceInfo {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  uint64_t total_bytes = 0;
  int driver_version = 0;         // As cuDriverGetVersion: 13000 for CUDA 13.0.
  int least_stream_priority = 0;  // Numerically highest.
  int greatest_stream_priority = 0;
  std::string pci_bus_id;  // "0000:00:04.0"
  std::vector<std::pair<int, int>> attributes;
};

// One kernel parameter's place in the parameter buffer, in bytes.
struct ParamLayout {
  uint32_t offset = 0;
  uint32_t size = 0;
};

// One CUlaunchAttribute, as cuda.h lays its value out.
struct LaunchAttribute {
  uint32_t id = 0;
  std::array<std::byte, 64> value{};
};

// An option of the just-in-time compiler: a CUjit_option whose value is a number.
struct JitOption {
  uint32_t id = 0;
  uint32_t value = 0;
};

// What the just-in-time compiler had to say.
struct JitLog {
  float wall_ms = 0;
  std::string info;
  std::string errors;
};

// One operation on a word of device memory, in the order of its stream. `kind` and `flags` are
// CUDA's: CUstreamBatchMemOpType, CUstreamWaitValue_flags, CUstreamWriteValue_flags.
struct MemOp {
  static constexpr uint32_t kWait32 = 1;
  static constexpr uint32_t kWrite32 = 2;
  static constexpr uint32_t kWait64 = 4;
  static constexpr uint32_t kWrite64 = 5;
  static constexpr uint32_t kBarrier = 6;  // Has no address and no value.

  uint32_t kind = 0;
  uint32_t flags = 0;
  uint64_t address = 0;
  uint64_t value = 0;
};
static_assert(sizeof(MemOp) == 24);
inline constexpr size_t kMaxMemOps = 256;  // Of one call, as CUDA's.

struct LaunchConfig {
  std::array<uint32_t, 3> grid{};
  std::array<uint32_t, 3> block{};
  uint32_t dynamic_shared_bytes = 0;
  // All blocks run at the same time and may synchronize across the grid.
  bool cooperative = false;
  // Others than the cooperative one. kNotSupported for one that the backend lacks.
  std::vector<LaunchAttribute> attributes = {};
};

// Of Context::TakeBlock().
inline constexpr uint64_t kBlockBytes = 2u << 20;

// What one node of a graph does, and which nodes before it, by their places, it comes after.
struct GraphNode {
  enum class Kind { kNothing, kLaunch, kMemset, kCopy, kMemOps, kConditional };

  Kind kind = Kind::kNothing;
  std::vector<uint32_t> after;
  // The graph that it is in: 0, or one of the bodies of kConditional nodes before it, which have
  // their numbers in the order of those nodes. What it comes after is in the same one.
  uint32_t body = 0;
  // kLaunch. The parameters are borrowed.
  KernelId kernel{};
  LaunchConfig config;
  absl::Span<const std::byte> params;
  // kCopy: boxes, a run of bytes being one of height and depth 1. kMemset: address and pitch.
  BoxPlace dst;
  BoxPlace src;
  BoxExtent extent;
  // kMemset.
  uint32_t value = 0;
  uint32_t width = 0;
  uint64_t columns = 0;
  uint64_t rows = 0;
  // kMemOps.
  std::vector<MemOp> operations;
  // kConditional: what AddConditional() gave, a CUgraphConditionalNodeType, and how many bodies.
  uint64_t conditional = 0;
  uint32_t type = 0;
  uint32_t bodies = 0;
};
// As CUmemAccess_flags.
enum class MemoryAccess : uint32_t { kNone = 0, kRead = 1, kReadWrite = 3 };

// A worker's hold on one device. Thread-safe: lanes call it concurrently, each for its own stream.
// No method waits for device work unless it says so. After a sticky error (IsSticky) every call
// returns that error.
//
// Contexts that were opened together (Backend::OpenContexts) have one arena and know each other:
// memory of one may be an end of the others' copies, and a stream may wait for an event of another.
class Context {
 public:
  virtual ~Context() = default;

  // Those whose memory kernels of this one reach, as bits by their places in OpenContexts(). Its
  // own is among them.
  virtual uint32_t peers() const { return 1; }

  // --- Memory. `size` is a power of two, and `base` a multiple of it.
  // Reserves [base, base + size) of device addresses, for all contexts that were opened together.
  // Once, on any of them, before anything is mapped.
  virtual CudaResult ReserveArena(uint64_t base, uint64_t size) = 0;
  // Maps the whole chunk behind `fd` (borrowed; from this device's ChunkSource) at `va`, readable
  // and writable for this device and all that reach its memory. kInvalidValue when the range is
  // outside the arena, unaligned to 2 MiB or already mapped.
  virtual CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) = 0;
  // Undoes one MapChunk. The caller has made sure that no work uses the range: this does not wait.
  virtual CudaResult UnmapChunk(uint64_t va, uint64_t bytes) = 0;
  // Maps memory of the context's own at [va, va + bytes), granules of 2 MiB of the arena in which
  // no chunk is mapped: what stray accesses reach there does no harm. It is zeroed at first, any of
  // it may be the same memory, and a chunk that is mapped there later takes its place.
  // kInvalidValue as MapChunk().
  virtual CudaResult MapSink(uint64_t va, uint64_t bytes) = 0;
  // What the device, and those that reach its memory, may do with one mapped chunk from now on.
  // kInvalidValue where none is.
  virtual CudaResult SetChunkAccess(uint64_t /*va*/, uint64_t /*bytes*/, MemoryAccess) {
    return CudaResult::kNotSupported;
  }
  // Maps the whole file behind `fd` (borrowed), host memory, at `va` outside the arena, for host
  // and device alike. kInvalidValue when something is there, kNotSupported when the device has
  // another address for it. All contexts that were opened together reach it.
  virtual CudaResult MapHost(uint64_t /*va*/, uint64_t /*bytes*/, int /*fd*/) {
    return CudaResult::kNotSupported;
  }
  // Undoes one MapHost, after what runs.
  virtual CudaResult UnmapHost(uint64_t /*va*/, uint64_t /*bytes*/) {
    return CudaResult::kInvalidValue;
  }
  // Host memory that copies to and from the device are fastest with (pinned, where that exists),
  // for all contexts that were opened together.
  virtual CudaResult AllocStaging(size_t bytes, void** host) = 0;
  virtual void FreeStaging(void* host) = 0;

  // --- Streams. `flags`: CU_STREAM_DEFAULT (0) or CU_STREAM_NON_BLOCKING (1).
  virtual CudaResult CreateStream(uint32_t flags, int priority, StreamId* stream) = 0;
  // Destroys at once in the sense of CUDA: work already submitted still completes.
  virtual CudaResult DestroyStream(StreamId stream) = 0;

  // --- Events. `flags`: CU_EVENT_DEFAULT (0), DISABLE_TIMING (2) and others of CUDA.
  virtual CudaResult CreateEvent(uint32_t flags, EventId* event) = 0;
  virtual CudaResult DestroyEvent(EventId event) = 0;
  virtual CudaResult RecordEvent(EventId event, StreamId stream) = 0;
  virtual CudaResult WaitEvent(StreamId stream, EventId event) = 0;
  // kSuccess when complete, kNotReady, or the error that the work before it ended with.
  virtual CudaResult QueryEvent(EventId event) = 0;
  virtual CudaResult ElapsedMs(EventId start, EventId end, float* ms) = 0;

  // --- Work, in order of submission on its stream.
  // `params` is the kernel's parameter buffer, laid out as Params() says.
  virtual CudaResult Launch(KernelId kernel, const LaunchConfig& config,
                            absl::Span<const std::byte> params, StreamId stream) = 0;
  // `src` has been read when this returns.
  virtual CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) = 0;
  // `dst` must come from AllocStaging and is filled when the stream has passed this point.
  virtual CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) = 0;
  // Either end may be memory of another context that was opened with this one, as in all copies
  // between places on devices.
  virtual CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) = 0;
  // Sets `count` elements of `width` (1, 2 or 4) bytes to the low bits of `value`.
  virtual CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                            StreamId stream) = 0;

  // The same in each of `rows` rows, `pitch` bytes apart.
  virtual CudaResult MemsetRows(uint64_t /*dst*/, uint64_t /*pitch*/, uint32_t /*value*/,
                                int /*width*/, size_t /*columns*/, size_t /*rows*/, StreamId) {
    return CudaResult::kNotSupported;
  }

  // --- Boxes. kInvalidValue for what is none (BoxSpan). The host's end is memory from AllocStaging
  // that holds the rows without gaps, and stays as it is until the stream has passed this point.
  virtual CudaResult CopyBoxToDevice(const BoxPlace& /*dst*/, const void* /*src*/, const BoxExtent&,
                                     StreamId) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult CopyBoxFromDevice(void* /*dst*/, const BoxPlace& /*src*/, const BoxExtent&,
                                       StreamId) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult CopyBoxOnDevice(const BoxPlace& /*dst*/, const BoxPlace& /*src*/,
                                     const BoxExtent&, StreamId) {
    return CudaResult::kNotSupported;
  }

  // Words of the arena, aligned. Does not wait for what the operations wait for. kInvalidValue for
  // an unknown kind or flag, kNotSupported for one that the device lacks.
  virtual CudaResult MemOps(absl::Span<const MemOp>, StreamId) { return CudaResult::kNotSupported; }

  // `attribute` has a CUstreamAttrID and its value. A hint to the device, except the priority.
  virtual CudaResult SetStreamAttribute(StreamId, const LaunchAttribute&) {
    return CudaResult::kSuccess;
  }

  // --- Graphs. kNotSupported from a device without, and for nodes with memory of other devices:
  // they are then issued one by one.
  // Makes a graph and what it takes to launch it.
  virtual CudaResult CreateGraph(absl::Span<const GraphNode>, GraphId*) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult LaunchGraph(GraphId, StreamId) { return CudaResult::kNotSupported; }
  // Launches that were made complete.
  virtual CudaResult DestroyGraph(GraphId) { return CudaResult::kNotSupported; }

  // --- Frames: graphs that have conditional handles before they have nodes. Kernels are given the
  // handles' numbers, so the nodes must become those of the same graph.
  virtual CudaResult CreateFrame(FrameId*) { return CudaResult::kNotSupported; }
  virtual CudaResult AddConditional(FrameId, uint32_t /*first_value*/, uint32_t /*flags*/,
                                    uint64_t* /*conditional*/) {
    return CudaResult::kNotSupported;
  }
  // Once for a frame. After a failure it is good for nothing.
  virtual CudaResult FillFrame(FrameId, absl::Span<const GraphNode>) {
    return CudaResult::kNotSupported;
  }
  // A graph to launch of a frame that was filled; no two exist at a time.
  virtual CudaResult CreateGraphOf(FrameId, GraphId*) { return CudaResult::kNotSupported; }
  // Graphs that were made of it stay.
  virtual CudaResult DestroyFrame(FrameId) { return CudaResult::kNotSupported; }

  // --- What kernels print. printf goes to the process's descriptor 1 and a failed assert to 2, as
  // CUDA's driver does it. Returns once everything is written there that work complete by now has
  // printed, in its order; waits for nothing that still runs.
  virtual CudaResult FlushOutput() { return CudaResult::kSuccess; }

  // --- Limits of the context; `limit` is a CUlimit, `value` in its own unit. kUnsupportedLimit for
  // one that the backend does not know.
  virtual CudaResult GetLimit(int, uint64_t*) { return CudaResult::kUnsupportedLimit; }
  virtual CudaResult SetLimit(int, uint64_t) { return CudaResult::kUnsupportedLimit; }

  // --- Modules. `image` is a fatbin container, a cubin, or PTX text; it is not kept.
  virtual CudaResult LoadModule(std::string_view image, ModuleId* module) = 0;
  // The same with options. `log` is filled whatever the result.
  virtual CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption>, JitLog*,
                                   ModuleId* module) {
    return LoadModule(image, module);
  }
  // Loads what LoadModule() left for later, and returns what an eager load would have: backends
  // that load lazily override it.
  virtual CudaResult CheckModule(ModuleId) { return CudaResult::kSuccess; }
  // Waits for kernels of the module that are running.
  virtual CudaResult UnloadModule(ModuleId module) = 0;
  // Names of the module's kernels.
  virtual CudaResult Kernels(ModuleId module, std::vector<std::string>* names) = 0;
  virtual CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) = 0;
  virtual CudaResult Params(KernelId kernel, std::vector<ParamLayout>* params) = 0;
  // `attribute` is a CUfunction_attribute. kInvalidValue for one that the backend does not know.
  virtual CudaResult GetKernelAttribute(KernelId kernel, int attribute, int* value) = 0;
  virtual CudaResult SetKernelAttribute(KernelId kernel, int attribute, int value) = 0;
  // Address and size of a `.global` or `.const` variable, managed or not; kNotFound.
  virtual CudaResult FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                uint64_t* bytes) = 0;
  // A block of kBlockBytes from the memory that the backend itself cuts modules' variables from,
  // and the return of one. kNotSupported where variables lie at the same place in every process
  // anyway.
  virtual CudaResult TakeBlock(uint64_t* /*address*/) { return CudaResult::kNotSupported; }
  virtual void FreeBlock(uint64_t /*address*/) {}
  // The managed variables among which `address`, from FindGlobal(), lies; `*bytes` 0 when it is not
  // managed.
  virtual CudaResult ManagedBlock(uint64_t /*address*/, uint64_t* base, uint64_t* bytes) {
    *base = *bytes = 0;
    return CudaResult::kSuccess;
  }
  // cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags.
  virtual CudaResult MaxActiveBlocks(KernelId kernel, int block_threads,
                                     size_t dynamic_shared_bytes, uint32_t flags, int* blocks) = 0;
  // cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize; the cluster is among the
  // attributes of `config`.
  virtual CudaResult MaxActiveClusters(KernelId, const LaunchConfig&, int*) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult MaxClusterSize(KernelId, const LaunchConfig&, int*) {
    return CudaResult::kNotSupported;
  }

  // --- Linked code. What has one id is used by one thread at a time. The log is what was said
  // since the last call.
  virtual CudaResult CreateLink(absl::Span<const JitOption>, LinkId*) {
    return CudaResult::kNotSupported;
  }
  // `type` is a CUjitInputType; `data` is not kept. `name` is for the log.
  virtual CudaResult AddToLink(LinkId, uint32_t /*type*/, std::string_view /*data*/,
                               const std::string& /*name*/, absl::Span<const JitOption>, JitLog*) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult CompleteLink(LinkId, std::string* /*code*/, JitLog*) {
    return CudaResult::kNotSupported;
  }
  virtual void DestroyLink(LinkId) {}

  // --- Tensor maps. With kReplaceAddress `map` is read too.
  virtual CudaResult EncodeTensorMap(const TensorMap&, TensorMapBytes* /*map*/) {
    return CudaResult::kNotSupported;
  }

  // --- Arrays. `shape` becomes what the device made of it.
  virtual CudaResult CreateArray(ArrayShape* /*shape*/, ArrayId*) {
    return CudaResult::kNotSupported;
  }
  // Waits for work that uses it.
  virtual CudaResult DestroyArray(ArrayId) { return CudaResult::kNotSupported; }
  // A level of a mipmapped array, or a plane of an array, which lives as long as the whole.
  virtual CudaResult ArrayLevel(ArrayId, uint32_t /*level*/, ArrayShape*, ArrayId* /*part*/) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult ArrayPlane(ArrayId, uint32_t /*plane*/, ArrayShape*, ArrayId* /*part*/) {
    return CudaResult::kNotSupported;
  }
  // At least one end is an array. kInvalidValue for what leaves it.
  virtual CudaResult CopyArray(const ArrayEnd& /*to*/, const ArrayEnd& /*from*/, const BoxExtent&,
                               StreamId) {
    return CudaResult::kNotSupported;
  }

  // --- Texture and surface objects: numbers that kernels get as parameters. Memory must be within
  // the arena.
  virtual CudaResult CreateTexture(const Texture&, uint64_t* /*object*/) {
    return CudaResult::kNotSupported;
  }
  virtual CudaResult DestroyTexture(uint64_t /*object*/, bool /*is_surface*/) {
    return CudaResult::kNotSupported;
  }
};

// A keeper's hold on one device: makes memory, never runs tenant code. Thread-safe.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // A chunk of `bytes` (a multiple of 2 MiB) of device memory behind a descriptor that keeps it
  // alive. RESOURCE_EXHAUSTED when the device has no more.
  virtual absl::StatusOr<UniqueFd> CreateChunk(uint64_t bytes) = 0;
  // Overwrites the chunk behind `fd` (borrowed) with zeros and returns when that is done.
  virtual absl::Status ScrubChunk(int fd, uint64_t bytes) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int DeviceCount() = 0;
  virtual absl::StatusOr<DeviceInfo> Info(int ordinal) = 0;
  // One for each of `ordinals`, which are distinct and 1 to 32. They end together: none is used any
  // more once the first is destroyed.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Context>>> OpenContexts(
      absl::Span<const int> ordinals) = 0;
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(int ordinal) {
    auto contexts = OpenContexts({&ordinal, 1});
    if (!contexts.ok()) return contexts.status();
    return std::move(contexts->front());
  }
  virtual absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int ordinal) = 0;
};

// `name` is "cuda", "cpu", "cpu:N" for N CPU devices that share the host's cores and memory, or
// "auto" (cuda when its driver loads and finds a device, else cpu). UNAVAILABLE when the driver or
// a device is missing, INVALID_ARGUMENT for another name. The choice is made in
// server/device/backends.cc.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view name);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_DEVICE_H_
