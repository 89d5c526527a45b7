// Makes fatbin containers for tests.
#ifndef WARPLINE_COMMON_TIER_FATBIN_BYTES_H_
#define WARPLINE_COMMON_TIER_FATBIN_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::tier {

struct FatbinEntry {
  uint16_t kind = 0;  // 1 for PTX, 2 for machine code
  uint32_t sm = 0;
  std::string payload;
  uint64_t flags = 0;
  uint64_t uncompressed_bytes = 0;
};

std::string Container(const std::vector<FatbinEntry>& entries);

inline FatbinEntry Ptx(uint32_t sm, uint64_t flags = 0) { return {1, sm, ".version 8.0", flags}; }
inline FatbinEntry MachineCode(uint32_t sm) {
  return {2, sm,
          "\x7f"
          "ELF .text.k"};
}

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_FATBIN_BYTES_H_
