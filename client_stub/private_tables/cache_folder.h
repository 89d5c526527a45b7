// A folder in which compilers keep their results between processes, one file for each result.
//
// Processes share a folder without locks: a file is written under another name and renamed, and a
// file that is damaged or too short counts as missing. The least recently used files are deleted
// when there are too many bytes.
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
  // The folder is made, readable for its user alone, when the first result is stored. A CacheFolder
  // without a path keeps nothing.
  CacheFolder(std::string path, uint64_t max_bytes);

  // Returns false when there is no intact result of that name.
  bool Find(const ContentHash& name, std::string* result);
  // Returns false when the result could not be kept.
  bool Put(const ContentHash& name, std::string_view result);

  const std::string& path() const { return path_; }

 private:
  bool MakeFolder() const;
  // Whether only this user can write there, since the results found there are run.
  bool IsOurs() const;
  void DropOldest();

  const std::string path_;
  const uint64_t max_bytes_;
  // The bytes stored since the folder's size was last looked at.
  std::atomic<uint64_t> unseen_bytes_;
};

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CACHE_FOLDER_H_
