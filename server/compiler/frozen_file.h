// Files in memory that nobody can change any more. Requests, what one stage hands to the next, and
// results are such files, so that what was checked is what is used.
#ifndef WARPLINE_SERVER_COMPILER_FROZEN_FILE_H_
#define WARPLINE_SERVER_COMPILER_FROZEN_FILE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline::compiler {

// An empty file that can be written and grows. RESOURCE_EXHAUSTED without descriptors or memory.
absl::StatusOr<UniqueFd> NewFile(const char* name);

// Makes the file what it is for good. FAILED_PRECONDITION while somebody has it mapped to write.
absl::Status Freeze(int fd);

// A frozen file with these bytes. Errors as NewFile().
absl::StatusOr<UniqueFd> FrozenFile(const char* name, std::string_view bytes);

// How many bytes a frozen file has. INVALID_ARGUMENT for anything else, whatever it may be.
absl::StatusOr<uint64_t> FrozenBytes(int fd);

// A frozen file, mapped for reading. Movable.
class FrozenView {
 public:
  // `fd` is borrowed. Errors as FrozenBytes(); RESOURCE_EXHAUSTED if it has more than `most` bytes,
  // or cannot be mapped.
  static absl::StatusOr<FrozenView> Map(int fd, uint64_t most);

  FrozenView() = default;
  FrozenView(FrozenView&& other) noexcept;
  FrozenView& operator=(FrozenView&& other) noexcept;
  ~FrozenView();

  std::string_view bytes() const { return bytes_; }

 private:
  explicit FrozenView(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

// Appends all of `bytes`, from a stage whose files are bounded by a limit of its process.
absl::Status WriteAll(int fd, std::string_view bytes);

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_FROZEN_FILE_H_
