// Surveys the files of a program for device code: the program itself and the libraries that it has
// loaded or is linked with. What it costs is bounded, whatever the files are: large libraries are
// looked into only where compilers put device code.
//
// What a file was found to have is kept in the user's folder for caches, by the file's identity
// (device, inode, size, times), so that the next start reads nothing of it.
//
//   FileSurvey survey({.cache_folder = CacheFolder()});
//   for (const std::string& path : paths) {
//     const DeviceCode code = survey.Look(path);
//     ...
//   }
//   survey.Save();
#ifndef WARPLINE_COMMON_TIER_FILE_SURVEY_H_
#define WARPLINE_COMMON_TIER_FILE_SURVEY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "common/plain_file.h"
#include "common/tier/device_code.h"
#include "common/tier/keyed_lines.h"

namespace warpline::tier {

// Thread-compatible.
class FileSurvey {
 public:
  struct Options {
    std::string cache_folder;  // Empty for no cache.
    // Files up to this size are searched as a whole, and of larger ones what is in sections for
    // device code.
    uint64_t small_file_bytes = uint64_t{8} << 20;
    // The most that is read of one file, and of all together.
    uint64_t most_file_bytes = uint64_t{64} << 20;
    uint64_t most_bytes = uint64_t{512} << 20;
    // No file is begun after so much time.
    absl::Duration most_time = absl::Seconds(2);
    // A steady clock and that of the files; the process's where they are null.
    std::function<absl::Time()> clock = nullptr;
    std::function<absl::Time()> wall_clock = nullptr;
  };
  explicit FileSurvey(Options options);

  // The code in the file. What cannot be read, or is no plain file, has none. With an obstacle
  // where the bounds ended the search, and for libraries that are known to be of machine code
  // alone, which are not read at all.
  DeviceCode Look(const std::string& path);

  // Keeps what was found out, where there is a cache.
  void Save();

  uint64_t read_bytes() const { return read_bytes_; }

 private:
  DeviceCode Read(const PlainFile& file);
  bool OutOfBounds() const;

  const Options options_;
  const KeyedLines cache_;
  const absl::Time began_;
  const std::map<std::string, std::string> known_;
  std::map<std::string, std::string> found_;
  uint64_t read_bytes_ = 0;
};

// Whether a library of this file name, such as "libcublas.so.12", is known to bring machine code
// without PTX.
bool IsMachineCodeLibrary(std::string_view file_name);

// The last part of a path.
std::string_view FileName(std::string_view path);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_FILE_SURVEY_H_
