// Reads a file that strangers may have chosen: a program, one of its libraries, whatever a link
// leads to. Only a plain file is opened, so that no reading waits for another process, never ends,
// or has an effect on a device.
//
//   const absl::StatusOr<PlainFile> file = PlainFile::Open(path);
//   if (!file.ok()) return file.status();  // "cannot read /tmp/x: it is a pipe"
//   const std::string head = file->Read(0, 64);
#ifndef WARPLINE_COMMON_PLAIN_FILE_H_
#define WARPLINE_COMMON_PLAIN_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// Holds the file open until it is destroyed. Thread-safe after construction. It can be moved.
class PlainFile {
 public:
  // Follows links. NOT_FOUND when there is no such file, PERMISSION_DENIED when it may not be read,
  // INVALID_ARGUMENT when it is a folder, a pipe, a socket or a device, which is then not opened
  // for reading. The errors name the path.
  static absl::StatusOr<PlainFile> Open(const std::string& path);

  // What the file was when it was opened. It may have been changed or cut since.
  const struct stat& about() const { return about_; }
  uint64_t size() const { return static_cast<uint64_t>(about_.st_size); }

  // Returns `bytes` bytes at `offset`, or fewer where the file ends or cannot be read. Never
  // returns what lies behind size(), and allocates no more than it can return.
  std::string Read(uint64_t offset, uint64_t bytes) const;

 private:
  PlainFile(UniqueFd file, const struct stat& about);

  UniqueFd file_;
  struct stat about_ = {};
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_PLAIN_FILE_H_
