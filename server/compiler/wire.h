// What a worker and its tenant's compiler say to each other: records of fixed size, one a packet on
// a SOCK_SEQPACKET socket, with frozen files attached. Nothing in them has a length of its own, so
// that a compiler that parses them has nothing to get wrong.
//
// A worker sends CompileRequest with the PTX, or an image that has it; the compiler answers
// CompileReply, with the code and the layout if it went well. One request at a time is under way.
#ifndef WARPLINE_SERVER_COMPILER_WIRE_H_
#define WARPLINE_SERVER_COMPILER_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace warpline::compiler {

// More PTX than this is not compiled.
inline constexpr uint64_t kMostPtxBytes = uint64_t{64} << 20;
// Nor is an image of more bytes looked into.
inline constexpr uint64_t kMostImageBytes = uint64_t{512} << 20;
// A stage writes no file that is larger.
inline constexpr uint64_t kMostOutputBytes = uint64_t{256} << 20;

enum class Output : uint32_t {
  kCubin = 0,  // Machine code, for devices of NVIDIA's
  kText = 1,   // The guarded PTX, for a device that takes that
};

// What the worker's file holds.
enum class Source : uint32_t {
  kText = 0,   // PTX
  kImage = 1,  // A fatbin container, a cubin or PTX, of which the PTX for the device is meant
};

// Of the largest file that is taken.
inline constexpr uint64_t MostBytes(Source source) {
  return source == Source::kImage ? kMostImageBytes : kMostPtxBytes;
}

struct CompileRequest {
  static constexpr uint32_t kMagic = 0x31435057;  // "WPC1"

  uint32_t magic = kMagic;
  Output output = Output::kCubin;
  // guard::RewriteOptions.
  uint32_t arena_bits = 0;
  uint32_t hardened = 0;  // 0 or 1
  uint32_t checks = 0;    // 0 or 1
  uint32_t first_site = 0;
  uint32_t sm = 0;  // That of the device, such as 90.
  Source source = Source::kText;
};

struct CompileReply {
  static constexpr uint32_t kMagic = 0x31525057;  // "WPR1"
  static constexpr size_t kMostReason = 472;

  uint32_t magic = kMagic;
  int32_t code = 0;     // absl::StatusCode. With kOk come two files: the code, and the layout.
  uint32_t cached = 0;  // The result was there.
  // How long each stage took, in microseconds; 0 for one that was not started.
  uint32_t rewrite_us = 0;
  uint32_t verify_us = 0;
  uint32_t compile_us = 0;
  uint32_t reason_bytes = 0;
  uint32_t unused = 0;
  char reason[kMostReason] = {};  // Why not, as a tenant's text.
};
static_assert(std::is_trivially_copyable_v<CompileRequest> && sizeof(CompileRequest) == 32);
static_assert(std::is_trivially_copyable_v<CompileReply> && sizeof(CompileReply) == 504);

// Sends `bytes` bytes with copies of `fds` (borrowed, at most 2). UNAVAILABLE when the peer is gone
// or a non-blocking socket is full.
absl::Status SendRecord(int socket, const void* record, size_t bytes, absl::Span<const int> fds);

// Receives a record of `bytes` bytes, and the descriptors that came with it, close-on-exec.
// UNAVAILABLE at the end of the stream, NOT_FOUND when a non-blocking socket has none,
// INVALID_ARGUMENT for a record of another size or with more than two descriptors, which are
// closed.
absl::Status ReceiveRecord(int socket, void* record, size_t bytes, std::vector<UniqueFd>* fds);

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_WIRE_H_
