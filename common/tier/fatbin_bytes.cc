#include "common/tier/fatbin_bytes.h"

#include <cstddef>

namespace warpline::tier {
namespace {

constexpr size_t kHeader = 16, kEntryHeader = 64;

template <typename T>
void Put(std::string* bytes, size_t at, T value) {
  bytes->replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::string Container(const std::vector<FatbinEntry>& entries) {
  std::string body;
  for (const FatbinEntry& entry : entries) {
    std::string header(kEntryHeader, '\0');
    Put(&header, 0, entry.kind);
    Put(&header, 4, static_cast<uint32_t>(kEntryHeader));
    Put(&header, 8, static_cast<uint64_t>(entry.payload.size()));
    Put(&header, 16, static_cast<uint32_t>(entry.payload.size()));
    Put(&header, 28, entry.sm);
    Put(&header, 40, entry.flags);
    Put(&header, 56, entry.uncompressed_bytes);
    body += header + entry.payload;
  }
  std::string bytes(kHeader, '\0');
  Put(&bytes, 0, uint32_t{0xBA55ED50});
  Put(&bytes, 4, uint16_t{1});
  Put(&bytes, 6, static_cast<uint16_t>(kHeader));
  Put(&bytes, 8, static_cast<uint64_t>(body.size()));
  return bytes + body;
}

}  // namespace warpline::tier
