// Reads the images that CUDA programs hand to the driver: fatbin containers, cubins, PTX text.
//
// It is safe for untrusted bytes: it reads nothing outside of them and believes no size in them.
// Thread-safe.
#ifndef WARPLINE_COMMON_FATBIN_FATBIN_H_
#define WARPLINE_COMMON_FATBIN_FATBIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::fatbin {

enum class ImageKind {
  kPtx,
  kElf,
  kOther,  // LTO-IR and kinds to come: nothing to run.
};

enum class Compression { kNone, kLz4, kZstd };

// Bits of ImageEntry::flags.
inline constexpr uint64_t kFlagLz4 = 0x2000;
inline constexpr uint64_t kFlagZstd = 0x8000;
inline constexpr uint64_t kFlagArchSpecific = 0x100000;  // sm_90a
inline constexpr uint64_t kFlagFamily = 0x200000;        // sm_100f

struct ImageEntry {
  ImageKind kind = ImageKind::kOther;
  Compression compression = Compression::kNone;
  uint32_t sm = 0;  // 90 for sm_90; 0 where the image does not say (bare PTX).
  uint64_t flags = 0;
  uint64_t uncompressed_bytes = 0;  // As claimed; for compressed entries only.
  std::string_view payload;         // Points into the parsed bytes.
};

inline constexpr size_t kMaxPayloadBytes = size_t{256} << 20;
inline constexpr uint64_t kMaxLookedIntoBytes = 2 * kMaxPayloadBytes;

// The entries of a container, or one entry for a bare cubin or PTX text. INVALID_ARGUMENT for
// anything else and for a container that contradicts itself.
absl::StatusOr<std::vector<ImageEntry>> ParseImage(std::string_view bytes);

// The entry's PTX text (without NULs at the end) or cubin. RESOURCE_EXHAUSTED above `max_bytes`,
// INVALID_ARGUMENT when it does not decompress to what was claimed.
absl::StatusOr<std::string> EntryPayload(const ImageEntry& entry,
                                         size_t max_bytes = kMaxPayloadBytes);

// The PTX text in the image that suits a device of `sm`, such as 90, best: the newest that is not
// newer than the device, and of that the text that is made for its very architecture. NOT_FOUND if
// there is none, with what there is instead; otherwise the errors of ParseImage() and
// EntryPayload().
absl::StatusOr<std::string> PtxOf(std::string_view image, int sm);

// As PtxOf(), for an image that has no machine code for such a device; NOT_FOUND for one that has.
absl::StatusOr<std::string> PtxToCompile(std::string_view image, int sm);

// The containers that lie in a file, such as a program or a library: one view each. Finds them by
// their first bytes, so that what it returns may be something else by chance.
std::vector<std::string_view> FindContainers(std::string_view file);

// Whether the image's kernels may print or assert, which shows in the names of the driver's
// functions for it. Decompresses every entry, up to `max_bytes` in sum; also true for what is too
// large to look into.
bool MayPrint(std::string_view bytes, uint64_t max_bytes = kMaxLookedIntoBytes);

}  // namespace warpline::fatbin

#endif  // WARPLINE_COMMON_FATBIN_FATBIN_H_
