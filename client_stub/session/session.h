// The client's end of a session: one connection to a server at a time, one order of commands, the
// waits of the application's threads, and the completion board.
//
// Commands are appended under a short lock to a buffer that the channel's loop takes away as it
// runs, so a burst leaves as few frames. What was appended leaves without any further call.
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/counters.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "proto/devices.h"
#include "proto/wire.h"

namespace warpline::stub {

struct SessionOptions {
  std::string endpoint;    // "host:port" or "unix:/path"
  std::string device;      // As Hello.device: one or several.
  std::string token;       // Of a lease, for a server that wants one.
  std::string credential;  // The tenant's, for a scheduler.
  // For the connection.
  absl::Duration deadline = absl::Seconds(5);
  // From then on for the welcome. A busy server may take seconds to start a worker, and gives up by
  // itself sooner than this.
  absl::Duration open_deadline = absl::Seconds(90);
  uint64_t initial_memory_bytes = 64ull << 20;
  // Writes what kernels print (OutputBuffer::Printer). Null drops it.
  int (*printer)(int descriptor, const char* text, size_t bytes, int wait) = nullptr;
  // How long a lost connection is tried to be replaced before the session is lost. 0: not at all.
  absl::Duration resume = absl::Seconds(30);
  // Whether a session that came over the loopback interface may go on over the server's unix
  // socket.
  bool transfer = true;
};

// Device memory keeps this distance from either end of each device's part of the arena. The server
// has the worker map the distance before the first allocation to a sink, so that programs that
// access a little before it harm nothing.
inline constexpr uint64_t kArenaMargin = 8ull << 20;

// What the server said of one of the session's devices.
struct RemoteDevice {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  uint64_t total_bytes = 0;  // The session's quota, which is what the application may see.
  int driver_version = 0;
  int least_stream_priority = 0;
  int greatest_stream_priority = 0;
  std::string pci_bus_id;
  std::array<int, 256> attributes{};  // By CUdevice_attribute; 0 where the server knows none.
  uint32_t peers = 0;  // A bit for each other device of the session whose memory it can access.
};

// Memory that the server backed: [va, va + bytes) in the arena.
struct Grant {
  uint64_t va = 0;
  uint64_t bytes = 0;
};

// What a session offers to others of its lease: a handle's memory, the memory that backs a range of
// the arena, or, without either, an event.
struct SharedWhat {
  uint64_t handle = 0;
  uint64_t va = 0;
  uint64_t bytes = 0;
};

// What opens it. Of a range, `va` and `bytes` are what backs it, which reaches beyond the range.
struct SharedMemory {
  std::string token;
  uint64_t va = 0;
  uint64_t bytes = 0;
};

// What a wait is for; decides the counter it falls under. Waits of the kinds kSynchronize and
// kCopyOut also return, once, the error of an earlier one-way command that failed without ending
// the session: that is where CUDA reports it.
enum class WaitKind {
  kRoundTrip,
  kSynchronize,
  kCopyOut,
  kFree,  // For freed memory to retire.
};

inline constexpr uint64_t kNoStream = ~uint64_t{0};

// The largest tail of one command; callers split what is longer. The tail is copied while other
// threads' commands wait, so pieces of some hundred KiB are as large as is wise.
inline constexpr size_t kMaxTail = 512u << 10;

// Thread-safe, except Open and the destructor.
class Session {
 public:
  // Reserves the arena in this process, connects and opens a session. UNAVAILABLE when nobody
  // answers within the deadline, NOT_FOUND when the server has no such device, RESOURCE_EXHAUSTED
  // when it admits no more, otherwise what the server refused with.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options);

  virtual ~Session() = default;

  // At least one; their places are their numbers (proto/devices.h).
  virtual std::span<const RemoteDevice> devices() const = 0;
  const RemoteDevice& device(uint32_t number = 0) const { return devices()[number]; }
  virtual uint64_t arena_base() const = 0;
  virtual uint64_t arena_bytes() const = 0;
  // Of the first device's memory.
  virtual const Grant& initial_grant() const = 0;
  virtual Counters& counters() = 0;
  // What was agreed on (proto/frames.h, Feature).
  virtual uint64_t features() const { return 0; }
  // Whether no network lies between the two.
  virtual bool same_host() const { return true; }

  // The session's error: kSuccess, or the sticky error that every call returns from now on. One
  // relaxed load.
  virtual CudaResult error() const = 0;

  // The error of an earlier one-way command that failed without ending the session, once: for
  // waits that the completion board answers (those with an answer from the server return it).
  virtual CudaResult TakeDeferred() = 0;

  // Writes what complete kernels printed with the application's stdio. Waits do so by themselves.
  virtual void WriteOutput() {}
  // Whether kernels of the session may print.
  virtual bool ExpectsOutput() const { return false; }

  // Appends a one-way command and returns its number; 0 when the session is lost (error() says
  // why), or the server is too old to know the command. May wait for the window, which is counted.
  // `tail` is copied and at most kMaxTail long.
  template <typename Command>
  uint64_t Send(const Command& command, std::string_view tail = {}) {
    return Append(CommandTraits<Command>::kId, &command, CommandTraits<Command>::kBodyBytes, tail);
  }

  // Keeps the calling thread's commands together: until EndGroup() no other thread's commands come
  // between them. Other threads that send wait meanwhile. Does not nest.
  virtual void BeginGroup() = 0;
  virtual void EndGroup() = 0;

  // Sends a round trip and waits. On kSuccess `*fields` holds the reply struct's bytes followed by
  // its tail (may be null when nothing is wanted).
  template <typename Command>
  CudaResult Call(WaitKind kind, const Command& command, std::string_view tail = {},
                  std::string* fields = nullptr) {
    return RoundTrip(kind, CommandTraits<Command>::kId, &command,
                     CommandTraits<Command>::kBodyBytes, tail, fields);
  }

  // Copies device memory to `dst`. With `wait` returns when the data is there; otherwise at once,
  // and the data is there when a later synchronize that covers it returns (Retired(stream, seq)
  // becomes true only after the data has been written). `*seq` (may be null) gets the number.
  virtual CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                             uint64_t* seq) = 0;

  // The same for a box of device memory, to the box of host memory at `dst`.
  virtual CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                const BoxExtent& extent, bool wait, uint64_t* seq) = 0;

  // The same for a box of an array.
  virtual CudaResult CopyArrayOut(const cmd::CopyFromArray&, const BoxPlace& /*dst*/, bool /*wait*/,
                                  uint64_t* /*seq*/) {
    return CudaResult::kNotSupported;
  }

  // The number of the latest command sent, of the whole session.
  virtual uint64_t last_seq() const = 0;

  // Completion board: true when command `seq`, which ran on `stream`, and everything before it on
  // that stream is complete. Reads memory only. For a stream that nobody uses, such as kNoStream,
  // it says whether everything of the session up to `seq` is complete.
  virtual bool Retired(uint64_t stream, uint64_t seq) const = 0;
  // A stream's handle is gone; its board entry may go when it is complete.
  virtual void ForgetStream(uint64_t stream) = 0;

  // Called on the session's loop for each Freed notice whose token is of this device
  // (DeviceOfHandle()), with the token; set before any such FreeFence is sent. Must not block or
  // call the session.
  virtual void SetFreedCallback(uint32_t device, std::function<void(uint64_t token)> callback) = 0;

  // Called on the session's loop for each HostDue notice with its token, and with kNoToken when the
  // session is lost; set before any HostCall is sent. Must not block or call the session.
  static constexpr uint64_t kNoToken = 0;
  virtual void SetHostDueCallback(std::function<void(uint64_t token)> callback) = 0;

  // Asks the server to back [va, va + bytes) with min <= bytes <= want and waits for the answer
  // (a round trip). `*grant` is what was backed. kOutOfMemory when the server refused.
  virtual CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                   Grant* grant) = 0;
  // Memory was refused without the server's being asked, because of `why`: counted, and logged once
  // for each kind of reason, like the server's own refusals.
  virtual void NoteRefusedMemory(CudaResult /*error*/, std::string_view /*why*/) {}
  // Gives back a whole grant of which nothing in flight uses anything.
  virtual void ReturnMemory(const Grant& grant) = 0;

  // Memory apart from the arena, which MemoryMap commands map there: asks for handles from `first`
  // on, of `bytes` each, of the device that they name, and waits for the answer. `*created`, at
  // least 1 and at most `count`, is how many there are. kOutOfMemory when the server refused.
  virtual CudaResult CreateHandles(uint64_t, uint64_t, uint64_t, uint64_t*) {
    return CudaResult::kNotSupported;
  }
  // Gives back a handle that is mapped nowhere any more.
  virtual void ReturnHandle(uint64_t) {}
  // Offers something to sessions of the same lease, and opens what another one offers: memory as a
  // handle, which has `bytes` as its offer said; without a handle, says whether the token is that
  // of an event. Both wait for the answer. kInvalidValue when there is no such thing.
  virtual CudaResult Share(const SharedWhat&, SharedMemory*) { return CudaResult::kNotSupported; }
  virtual CudaResult OpenShared(const std::string&, uint64_t, uint64_t) {
    return CudaResult::kNotSupported;
  }
  // As SetFreedCallback(), for Unmapped notices; set before any MemoryUnmap is sent.
  virtual void SetUnmappedCallback(std::function<void(uint64_t token)>) {}
  // Has the server give [va, va + bytes) of the host arena (proto/frames.h), whole pages, to the
  // worker and this process, or take it back; waits for the answer. The caller maps `*fd`.
  // kNotSupported when the server is not on this host.
  virtual CudaResult ShareHostMemory(uint64_t va, uint64_t bytes, bool give_back, UniqueFd* fd) {
    (void)va, (void)bytes, (void)give_back, (void)fd;
    return CudaResult::kNotSupported;
  }

  // Goes on over another connection, to the same server at another address, without anything lost
  // or done twice; over the former address when that fails. Returns at once; does nothing for a
  // session that cannot be resumed.
  virtual void MoveTo(const std::string& endpoint) { (void)endpoint; }

  // After a sticky error: copies what is left of the memory to `dst`. kIllegalState while the
  // session is sound, its error when nothing is left, kInvalidValue for what is not its memory.
  virtual CudaResult ReadBack(void*, uint64_t, uint64_t) { return CudaResult::kNotSupported; }

  // Sends what is pending, tells the server good-bye and closes, within `deadline`. Later calls
  // find the session lost with kDeinitialized.
  virtual void Close(absl::Duration deadline) = 0;

 protected:
  virtual uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                          std::string_view tail) = 0;
  virtual CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                               std::string_view tail, std::string* fields) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_H_
