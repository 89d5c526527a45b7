#include "common/elf/loader_cache.h"

#include <cstdint>
#include <utility>

#include "common/elf/dynamic_section.h"
#include "common/elf/elf_header.h"
#include "common/elf/sections.h"

namespace warpline::elf {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr uint32_t kElfForX86_64 = 0x0303;  // FLAG_ELF_LIBC6 | FLAG_X8664_LIB64
// Values of cache_file_new.flags: old ldconfigs wrote 0; 2 means little-endian.
constexpr uint8_t kAnyByteOrder = 0, kLittleEndian = 2;

// struct cache_file_new and struct file_entry_new of glibc's sysdeps/generic/dl-cache.h.
struct CacheHeader {
  char magic[20];
  uint32_t entries;
  uint32_t string_bytes;
  uint8_t flags;
  uint8_t padding[3];
  uint32_t extension_offset;
  uint32_t unused[3];
};
static_assert(sizeof(CacheHeader) == 48);

struct CacheEntry {
  uint32_t flags;
  uint32_t name;  // Offsets in the file
  uint32_t path;
  uint32_t unused;
  uint64_t processor;  // 0 for any
};
static_assert(sizeof(CacheEntry) == 24);

}  // namespace

LoaderCache::LoaderCache(std::string bytes) : bytes_(std::move(bytes)) {
  if (bytes_.size() < sizeof(CacheHeader) || !bytes_.starts_with(kMagic)) return;
  const auto header = LoadAt<CacheHeader>(bytes_, 0);
  if ((header.flags & 3) != kAnyByteOrder && (header.flags & 3) != kLittleEndian) return;
  if (header.entries > (bytes_.size() - sizeof(header)) / sizeof(CacheEntry)) return;
  entries_ = header.entries;
}

bool LoaderCache::Names(size_t at, std::string_view name) const {
  if (at >= bytes_.size() || bytes_.size() - at <= name.size()) return false;
  return std::string_view(bytes_).substr(at).starts_with(name) && bytes_[at + name.size()] == '\0';
}

std::string LoaderCache::PathAt(size_t at) const {
  return std::string(TextAt(bytes_, at, kMostNameBytes).value_or(""));
}

std::vector<std::string> LoaderCache::Find(std::string_view name) const {
  std::vector<std::string> any, newer;
  for (size_t i = 0; i < entries_; ++i) {
    const auto entry = LoadAt<CacheEntry>(bytes_, sizeof(CacheHeader) + i * sizeof(CacheEntry));
    if (entry.flags != kElfForX86_64 || !Names(entry.name, name)) continue;
    std::vector<std::string>& paths = entry.processor == 0 ? any : newer;
    std::string path = PathAt(entry.path);
    if (path.starts_with('/') && paths.size() < kMostPaths) paths.push_back(std::move(path));
  }
  any.insert(any.end(), newer.begin(), newer.end());
  if (any.size() > kMostPaths) any.resize(kMostPaths);
  return any;
}

}  // namespace warpline::elf
