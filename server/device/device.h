// The seam between Warpline and the hardware: the calls that a worker and a keeper make to a
// device.
//
// Backends implement it: `cuda`, the real driver loaded at run time, and `cpu`, which executes
// PTX on the processor. The interface follows the CUDA driver API call by call, so that a backend
// returns the exact CUresult that CUDA would give. Handle tables, the order between
// executors and quotas are not part of it: the worker and the server keep these.
//
//   auto backend = OpenBackend("auto");
//   if (!backend.ok()) return backend.status();
//   auto chunks = (*backend)->OpenChunkSource(0);   // In a keeper.
//   auto chunk = (*chunks)->CreateChunk(2u << 20);
//   auto context = (*backend)->OpenContext(0);      // In a worker.
//   (*context)->ReserveArena(base, size);
//   (*context)->MapChunk(base, 2u << 20, chunk->get());
//   (*context)->Memset(base, 0, 4, 1024, kLegacyStream);
#ifndef WARPLINE_SERVER_DEVICE_DEVICE_H_
#define WARPLINE_SERVER_DEVICE_DEVICE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "server/device/facets/arrays.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/copies.h"
#include "server/device/facets/graphs.h"
#include "server/device/facets/launches.h"
#include "server/device/facets/libraries.h"
#include "server/device/facets/links.h"
#include "server/device/facets/memory.h"
#include "server/device/facets/modules.h"
#include "server/device/facets/objects.h"
#include "server/device/facets/partitions.h"
#include "server/device/facets/streams.h"
#include "server/device/facets/textures.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// What an application may ask about a device. Ids and values are those of CUdevice_attribute.
struct DeviceInfo {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  uint64_t total_bytes = 0;
  int driver_version = 0;         // The value of cuDriverGetVersion: 13000 for CUDA 13.0.
  int least_stream_priority = 0;  // The numerically highest.
  int greatest_stream_priority = 0;
  std::string pci_bus_id;  // "0000:00:04.0"
  std::vector<std::pair<int, int>> attributes;
};

// A worker's hold on one device, with all its facets. Thread-safe: relays call it concurrently,
// each for its own stream. No method waits for device work unless it says so. After a sticky error
// (IsSticky) every call returns that error.
//
// Contexts that were opened together (Backend::OpenContexts) have one arena and know each other:
// memory of one may be an end of the others' copies, and a stream may wait for an event of another.
//
// A backend implements each facet in a class of its own and puts them together with ContextOf
// (context_of.h). Code that needs only one facet takes only that.
class Context : public virtual Memory,
                public virtual Streams,
                public virtual Copies,
                public virtual Launches,
                public virtual Modules,
                public virtual Links,
                public virtual Arrays,
                public virtual Textures,
                public virtual Graphs,
                public virtual Partitions,
                public virtual Libraries {
 public:
  // A call that needs a capability outside these is refused with kNotSupported.
  virtual Capabilities capabilities() const = 0;
};

// A keeper's hold on one device: makes memory, and never runs tenant code. Thread-safe.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // Makes a chunk of `bytes` (a multiple of 2 MiB) of device memory behind a descriptor that keeps
  // it alive. RESOURCE_EXHAUSTED when the device has no more.
  virtual absl::StatusOr<UniqueFd> CreateChunk(uint64_t bytes) = 0;
  // Overwrites the chunk behind `fd` (borrowed) with zeros, and returns when that is done.
  virtual absl::Status ScrubChunk(int fd, uint64_t bytes) = 0;
  // The device's memory that nobody has, in this process or any other. Nothing for a device whose
  // memory is free as soon as the last descriptor and mapping of it are gone.
  virtual absl::StatusOr<std::optional<uint64_t>> FreeBytes() = 0;

  // A part of a chunk, and the host memory (borrowed) that it is copied to or from.
  struct Part {
    uint64_t offset = 0;
    void* host = nullptr;
    uint64_t bytes = 0;
  };
  // [host, host + bytes) will be an end of many copies: makes them fast. It stays mapped until this
  // object ends.
  virtual absl::Status AddHost(void* host, uint64_t bytes) = 0;
  // Returns for each kUsedGranule of the chunk behind `fd` (borrowed) whether it holds anything but
  // zeros.
  virtual absl::StatusOr<std::vector<bool>> FindUsed(int fd, uint64_t bytes) = 0;
  static constexpr uint64_t kUsedGranule = 2u << 20;
  // Copies parts of the chunk behind `fd` (borrowed) to host memory or from it, and returns when
  // that is done. Each part lies within the chunk's `bytes`.
  virtual absl::Status CopyOut(int fd, uint64_t bytes, absl::Span<const Part> parts) = 0;
  virtual absl::Status CopyIn(int fd, uint64_t bytes, absl::Span<const Part> parts) = 0;
};

// What one session has of a device that many share.
struct SharedContextOptions {
  // The most multiprocessors that the session's kernels may run on; 0 for all. A device that
  // divides them gives no more, but at least the least part that it can make.
  int multiprocessors = 0;
  // Its part of them beside other sessions that work, where the device divides them.
  int weight = 1;
  // The nice value of its client, from 0 to kMostNiceness. It lowers the weight.
  uint32_t niceness = 0;
  // Sessions that name the same group have both together. Empty for a session by itself.
  std::string share_group = {};
  // Told what part of the device's multiprocessors the session has, in thousandths, when it opens
  // and whenever that changes, where the device divides them. Any thread may call it until the
  // context has ended; it may not wait, and calls nothing of the device. May be null.
  std::function<void(uint32_t share)> on_share = nullptr;
  // Called when other sessions need a moment at which no kernel runs, as to load code, and kernels
  // of this one do not end: they are to be ended. Any thread may call it, more than once and until
  // the context has ended; it calls nothing of the context that waits. May be null.
  std::function<void()> on_overdue = nullptr;
  // Of the memory that its arena shows where nothing is mapped (Memory::Seal): with a small granule
  // besides, that is all that sealing takes. A power of two from kBlockBytes up to
  // Memory::kZoneBytes.
  uint64_t sink_granule_bytes = Memory::kZoneBytes;
};

// Memory of the host that a shared device reaches by copies at full speed: page-locked, where that
// exists. One session at a time has it (Memory::ShowHost), whose client has it mapped, too.
//
// Locking pages, and unlocking them, stops the kernels of all who share the device, so it is done
// while none runs.
class HostWindow {
 public:
  virtual ~HostWindow() = default;
  // Null once it was given up.
  virtual void* host() const = 0;
  virtual uint64_t bytes() const = 0;
  // Takes the whole file behind `fd` (borrowed) in place of the one that it has, in as many bytes;
  // with -1 none, for good. UNAVAILABLE, and nothing is changed, when kernels run; to be tried
  // again later, and not often, since launches are held back for a moment. After any other error it
  // is given up. REQUIRES: no session has it, and it was not given up.
  virtual absl::Status Replace(int fd) = 0;
};

// A device whose hardware context the sessions of many tenants share, each with a Context of its
// own: an arena, a gate, streams and all other objects, none of which another one can name. Kernels
// are kept within their arenas by what they are made of (guard/), not by this. Thread-safe.
//
// What would stop or slow the work of others is done when the device is opened, while no kernel
// runs, or refused: these contexts map no host memory but windows that are there, set no limits and
// map nothing once they are sealed. A fault of the
// hardware context is every session's.
class SharedDevice {
 public:
  virtual ~SharedDevice() = default;
  // Its streams do not wait for those of others, and the legacy stream is one of its own. What is
  // left in it ends with it, its arena included: the caller has seen to it that nothing runs.
  // INVALID_ARGUMENT for a granule that is none.
  virtual absl::StatusOr<std::unique_ptr<Context>> OpenContext(
      const SharedContextOptions& options) = 0;
  // Makes a window of the whole file behind `fd` (borrowed). It waits for a moment in which no
  // kernel runs, and sees to it that there is one, as loading code does: UNAVAILABLE if there is
  // none even so. The device outlives it.
  virtual absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(int fd, uint64_t bytes) = 0;
  // Sees whose kernels are under way, and gives multiprocessors accordingly. To be called a few
  // times a second while there are sessions: who has launched nothing lately may still run.
  virtual void Look() = 0;
};

struct SharedDeviceOptions {
  // Of staging memory for all sessions together (Memory::AllocStaging): for 128 sessions with four
  // buffers of 512 KiB each and three of 64 KiB.
  uint64_t staging_bytes = uint64_t{288} << 20;
  // Of local memory for each thread that the device can hold. It is there from the start, because
  // the driver waits for everybody's kernels when it makes more; kernels that need more are refused
  // (kLaunchOutOfResources).
  uint64_t local_bytes = 4096;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int DeviceCount() = 0;
  // The ordinal in this process of the device at a place on the PCI bus, which another process
  // calls `ordinal`. NOT_FOUND when the driver does not show it to this process.
  virtual absl::StatusOr<int> Find(int ordinal, const std::string& pci_bus_id) = 0;
  virtual absl::StatusOr<DeviceInfo> Info(int ordinal) = 0;
  // Opens a context for each of `ordinals`, which are distinct and 1 to 32 in number. The contexts
  // end together: none may be used any more once the first is destroyed.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Context>>> OpenContexts(
      absl::Span<const int> ordinals) = 0;
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(int ordinal) {
    auto contexts = OpenContexts({&ordinal, 1});
    if (!contexts.ok()) return contexts.status();
    return std::move(contexts->front());
  }
  // Opens a device for many sessions. It outlives the contexts that it opens.
  virtual absl::StatusOr<std::unique_ptr<SharedDevice>> OpenShared(
      int ordinal, const SharedDeviceOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int ordinal) = 0;
};

// Loads what the shared devices of the backend `name` need to execute calls of libraries
// (Libraries). Called, if at all, before OpenBackend() and while the process can open files. Where
// something is missing they execute none, and the log says what. It is defined beside
// OpenBackend().
void LoadLibraries(std::string_view name);

// Opens the backend `name`: that of a backend (server/hostlink/backends/backends.inc), "cpu:N" for
// N CPU devices that share the host's cores and memory, or "auto" for the first backend that opens
// and has a device. UNAVAILABLE when a driver or a device is missing, INVALID_ARGUMENT for another
// name. It is defined in server/device/registry, which links every backend.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view name);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_DEVICE_H_
