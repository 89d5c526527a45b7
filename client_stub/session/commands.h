// The commands of a session: their one order, the waits of the application's threads, and which
// commands are complete.
//
// Commands are appended under a short lock to a buffer that the channel's loop takes away as it
// runs, so a burst leaves as few frames. An appended command leaves without any further call.
//
//   const uint64_t seq = commands.Send(cmd::EventRecord{event, stream});  // One way.
//   if (seq == 0) return status.error();
//   ...
//   if (commands.Retired(stream, seq)) return CudaResult::kSuccess;  // Reads memory only.
//   return commands.Call(WaitKind::kSynchronize, cmd::StreamSync{stream});
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::stub {

// The purpose of a wait, which decides the counter that it falls under. Waits of the kinds
// kSynchronize and kCopyOut also return, once, the error of an earlier one-way command that failed
// without ending the session, because that is where CUDA reports it.
enum class WaitKind {
  kRoundTrip,
  kSynchronize,
  kCopyOut,
  kFree,   // For freed memory to retire.
  kPiece,  // Within a wait that is counted as a whole.
};

inline constexpr uint64_t kNoStream = kWholeSession;

// The largest tail of one command; callers split longer ones. The tail is copied while other
// threads' commands wait, so pieces of some hundred KiB are as large as is wise.
inline constexpr size_t kMaxTail = 512u << 10;

// A wait that was announced ahead of time: what ends it may be here when it begins.
class AnnouncedWait {
 public:
  // Waits, if Wait() was not called.
  virtual ~AnnouncedWait() = default;
  // Called once.
  virtual CudaResult Wait() = 0;
};

// Thread-safe.
class Commands {
 public:
  virtual ~Commands() = default;

  // Appends a one-way command and returns its number; 0 when the session is lost (SessionStatus
  // says why), or the server is too old to know the command. May wait for the window, which is
  // counted. `tail` is copied and at most kMaxTail long.
  template <typename Command>
  uint64_t Send(const Command& command, std::string_view tail = {}) {
    return Append(CommandTraits<Command>::kId, &command, CommandTraits<Command>::kBodyBytes, tail);
  }

  // Sends a round trip and waits. On kSuccess `*fields` holds the reply struct's bytes followed by
  // its tail (`fields` may be null when nothing is wanted).
  template <typename Command>
  CudaResult Call(WaitKind kind, const Command& command, std::string_view tail = {},
                  std::string* fields = nullptr) {
    return RoundTrip(kind, CommandTraits<Command>::kId, &command,
                     CommandTraits<Command>::kBodyBytes, tail, fields);
  }

  // Returns when Retired(stream, seq) is true of a command that was sent. Where a worker on this
  // host reports at once it waits for that, and elsewhere asks with `command`, a round trip that
  // comes back no sooner. Counted, and with errors, as such a call.
  template <typename Command>
  CudaResult Await(WaitKind kind, uint64_t stream, uint64_t seq, const Command& command) {
    return WatchOrCall(kind, stream, seq, CommandTraits<Command>::kId, &command,
                       CommandTraits<Command>::kBodyBytes);
  }

  // Returns when `done`, which reads memory only, is true: success, or the error of the session as
  // soon as it is lost. kTimeout after `limit`; nothing has changed then, and nothing was asked of
  // the server. Counted, and with errors, as a call.
  virtual CudaResult WatchWithin(WaitKind kind, absl::Duration limit,
                                 absl::FunctionRef<bool()> done) = 0;

  // Does what Await() does in two steps: where it is asked for, that leaves now, so that the answer
  // does not wait for what is sent afterwards.
  template <typename Command>
  std::unique_ptr<AnnouncedWait> Announce(WaitKind kind, uint64_t stream, uint64_t seq,
                                          const Command& command) {
    return AnnounceWait(kind, stream, seq, CommandTraits<Command>::kId, &command,
                        CommandTraits<Command>::kBodyBytes);
  }

  // Copies device memory to `dst`. With `wait` it returns when the data is there. Otherwise it
  // returns at once, and the data is there when a later synchronize that covers it returns
  // (Retired(stream, seq) becomes true only after the data has been written). `*seq` (may be null)
  // gets the number.
  virtual CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                             uint64_t* seq) = 0;

  // Copies `staged`, memory of this host that the stream's commands fill from device memory at
  // `src`, to `dst` once all that the stream was given so far is complete. Returns at once, like
  // CopyOut() without `wait`.
  virtual CudaResult CopyStaged(uint64_t stream, void* dst, const void* staged, uint64_t src,
                                uint64_t bytes, uint64_t* seq) = 0;

  // Copies a box of device memory in the same way, to the box of host memory at `dst`.
  virtual CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                const BoxExtent& extent, bool wait, uint64_t* seq) = 0;

  // Copies a box of an array in the same way.
  virtual CudaResult CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool wait,
                                  uint64_t* seq) = 0;

  // Returns the number of the latest command that the whole session sent.
  virtual uint64_t last_seq() const = 0;

  // Reads the completion board: returns true when command `seq`, which ran on `stream`, and
  // everything before it on that stream is complete. Reads memory only. For a stream that is not in
  // use, such as kNoStream, it tells whether everything of the session up to `seq` is complete.
  virtual bool Retired(uint64_t stream, uint64_t seq) const = 0;
  // Called when a stream's handle is gone: its entry on the board may go when it is complete.
  virtual void ForgetStream(uint64_t stream) = 0;

 protected:
  virtual uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                          std::string_view tail) = 0;
  virtual CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                               std::string_view tail, std::string* fields) = 0;
  virtual CudaResult WatchOrCall(WaitKind kind, uint64_t stream, uint64_t seq, CommandId id,
                                 const void* body, size_t body_bytes) = 0;
  virtual std::unique_ptr<AnnouncedWait> AnnounceWait(WaitKind kind, uint64_t stream, uint64_t seq,
                                                      CommandId id, const void* body,
                                                      size_t body_bytes) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_H_
