// The bytes of fatbins, as observed in CUDA 13's output. Private to this package.
#ifndef WARPLINE_COMMON_FATBIN_FORMAT_H_
#define WARPLINE_COMMON_FATBIN_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace warpline::fatbin {

// Container: u32 magic, u16 version, u16 header size, u64 bytes of all entries.
inline constexpr uint32_t kContainerMagic = 0xBA55ED50;
inline constexpr size_t kContainerHeaderBytes = 16;

// Entry: u16 kind, u16, u32 header size, u64 payload size, u32 compressed size, u32, u16 minor,
// u16 major, u32 sm, u32, u32, u64 flags, u64, u64 uncompressed size.
inline constexpr size_t kEntryHeaderBytes = 64;
inline constexpr size_t kMaxEntryHeaderBytes = 4096;
inline constexpr uint16_t kKindPtx = 1;
inline constexpr uint16_t kKindElf = 2;

// Wrapper: u32 magic, u32 version, pointer to a container, pointer (version 2: to containers
// before linking).
inline constexpr uint32_t kWrapperMagic = 0x466243B1;

// Reads a value at `offset`. The caller has checked that it lies within the bytes.
template <typename T>
T LoadAt(const void* bytes, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(bytes) + offset, sizeof(value));
  return value;
}

// The bytes that a container begins with.
inline std::string_view ContainerMagic() {
  return {reinterpret_cast<const char*>(&kContainerMagic), sizeof(kContainerMagic)};
}

// Returns how long the container is whose header these bytes begin with and which is followed by
// the end of the file after `rest` bytes, the header's included; 0 for what is no container.
inline uint64_t ContainerBytes(std::string_view header, uint64_t rest) {
  if (header.size() < kContainerHeaderBytes) return 0;
  const auto header_bytes = LoadAt<uint16_t>(header.data(), 6);
  const auto entries_bytes = LoadAt<uint64_t>(header.data(), 8);
  if (header_bytes < kContainerHeaderBytes || header_bytes > rest ||
      entries_bytes > rest - header_bytes) {
    return 0;
  }
  return header_bytes + entries_bytes;
}

}  // namespace warpline::fatbin

#endif  // WARPLINE_COMMON_FATBIN_FORMAT_H_
