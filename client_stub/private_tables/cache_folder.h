// What compilers keep on disk between processes: a folder with one file for each result.
//
// Processes share a folder without locks: a file is written under another name and renamed, and one
// that is damaged, or too short, is as good as none. The least recently used go when there is too
// much.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CACHE_FOLDER_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CACHE_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/crypto/content_hash.h"

namespace warpline {

// Larger results are not kept.
inline constexpr uint64_t kMaxCachedResult = 256ull << 20;

// Thread-safe.
class CacheFolder {
 public:
  // The folder is made, for its user alone, when the first result is put there. One without a path
  // keeps nothing.
  CacheFolder(std::string path, uint64_t max_bytes);

  // False when there is no whole result of that name.
  bool Find(const ContentHash& name, std::string* result);
  // False when it could not be kept.
  bool Put(const ContentHash& name, std::string_view result);

  const std::string& path() const { return path_; }

 private:
  bool MakeFolder() const;
  // Nobody else can write there: what is found is run.
  bool IsOurs() const;
  void DropOldest();

  const std::string path_;
  const uint64_t max_bytes_;
  // Put since the folder's size was last looked at.
  std::atomic<uint64_t> unseen_bytes_;
};

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CACHE_FOLDER_H_
