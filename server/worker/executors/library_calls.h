// Calls of libraries' functions, on their way from the wire to a device.
//
// Nothing ends a kernel of a library, so a session has only so much of that work under way as its
// end can wait for. A call that takes long is made in parts.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_LIBRARY_CALLS_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_LIBRARY_CALLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "proto/adapters/library_call.h"
#include "proto/commands.h"
#include "server/device/device.h"

namespace warpline::worker {

// The work of a session's libraries that is under way, by estimate. Thread-safe.
class LibraryBudget {
 public:
  // The sum over all streams, in microseconds. One call may be more than that.
  static constexpr uint64_t kMostUnderWay = 500'000;

  // Takes so much, unless with it there would be too much.
  bool Take(uint64_t microseconds);
  void Give(uint64_t microseconds) { under_way_.fetch_sub(microseconds); }

 private:
  std::atomic<uint64_t> under_way_{0};
};

// The call at the front of one stream's executor. Used by the executor's thread.
class LibraryCallIssue {
 public:
  // A part takes at most this long, in microseconds, by estimate.
  static constexpr uint64_t kMostOfPart = 50'000;
  // So many operations may be under way on the stream: the driver stops its caller at about 1,000,
  // and other commands have up to 512.
  static constexpr uint64_t kMostLaunches = 256;
  // Work is watched in pieces of at least this: microseconds, and operations.
  static constexpr uint64_t kLeastWatched = 100;
  static constexpr uint64_t kFewLaunches = 16;

  // Work that was put on the stream.
  struct Work {
    uint64_t microseconds = 0;
    uint64_t launches = 0;
  };

  enum class Step {
    kDone,     // The call has been issued, or refused: result().
    kBlocked,  // There is too much under way; to be tried again later.
  };

  // Both are borrowed; `*launches` is what is under way on the stream.
  LibraryCallIssue(LibraryBudget* budget, uint64_t* launches)
      : budget_(budget), launches_(launches) {}

  // Issues the call, or what is left of it. `watch` is called with work that was issued, and is to
  // give it back to both when that is complete.
  Step Issue(const cmd::LibraryCall& command, std::string_view tail, device::Context* context,
             device::StreamId stream, device::CodePayer* payer,
             absl::FunctionRef<void(const Work& work)> watch);
  CudaResult result() const { return result_; }

 private:
  CudaResult Read(const cmd::LibraryCall& command, std::string_view tail, device::Context* context);
  // Returns whether operands are aligned to 16 bytes in each part if they are in the first one.
  bool StaysAligned() const;
  // Makes `values` the part of the call that begins at `next_unit_`, and reads it into `*part`.
  CudaResult ReadPart(uint32_t modes, absl::Span<uint64_t> values, LibraryCall* part) const;
  // Issues a call that has been read: the whole one, or a part.
  CudaResult IssueRead(const cmd::LibraryCall& command, const LibraryCall& call,
                       absl::Span<const uint64_t> values, device::Context* context,
                       device::StreamId stream, device::CodePayer* payer);
  // Has the gathered work watched.
  void Watch(absl::FunctionRef<void(const Work& work)> watch);
  Step End(CudaResult result) {
    result_ = result;
    reading_ = true;
    return Step::kDone;
  }

  LibraryBudget* const budget_;
  uint64_t* const launches_;
  Work gathered_;  // Issued and not watched yet.
  CudaResult result_ = CudaResult::kSuccess;
  bool reading_ = true;  // Nothing of the call at the front has been issued.
  const LibraryFunction* function_ = nullptr;
  std::array<uint64_t, kMostLibraryValues> values_;
  LibraryCall call_;
  uint64_t part_microseconds_ = 0;
  // The call is divided along the value at `call_.divide_slot`. Without parts there is one unit.
  uint64_t units_ = 1;
  uint64_t units_of_part_ = 1;
  uint64_t next_unit_ = 0;  // The first one of the next part.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_LIBRARY_CALLS_H_
