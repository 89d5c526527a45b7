// Sizes as people write them on a command line.
#ifndef WARPLINE_COMMON_BYTE_SIZE_H_
#define WARPLINE_COMMON_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// A flag type: "1073741824", "1GiB", "512M", "2T". K, M, G and T are powers of 1024, with or
// without "iB" or "B".
struct ByteSize {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(ByteSize size);

}  // namespace warpline

#endif  // WARPLINE_COMMON_BYTE_SIZE_H_
