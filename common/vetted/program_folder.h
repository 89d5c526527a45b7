// The folder in which an operator lists vetted programs: those that a session may run which may
// bring no code of its own (docs/operations.md).
//
// Each program is a text file, NAME.program, with a line for each image of device code in it:
//
//   SHA-256 in hexadecimal, the number of bytes, and what it is, separated by blanks
//
// Lines that begin with # are comments. `warpline program` writes the files, and servers read them.
#ifndef WARPLINE_COMMON_VETTED_PROGRAM_FOLDER_H_
#define WARPLINE_COMMON_VETTED_PROGRAM_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/crypto/content_hash.h"

namespace warpline {

// All programs of a folder together have at most so many images: a server tells each worker of all.
inline constexpr size_t kMostVettedImages = 1600;

struct VettedImage {
  ContentHash hash = {};
  uint64_t bytes = 0;
  std::string what;  // One word, such as "fatbin".
};

// By the program's name.
using VettedFolder = std::map<std::string, std::vector<VettedImage>>;

// These functions are thread-safe. Their errors name the file.

// Returns true for 1 to 64 letters, digits, dots, hyphens and underscores, not a dot first.
bool IsProgramName(absl::string_view name);

// Reads the text of a file. INVALID_ARGUMENT with the number of a line that is none.
absl::StatusOr<std::vector<VettedImage>> ParseProgram(absl::string_view text);

// Returns the programs of the folder. A file that cannot be read is left out, and told in
// `*unreadable`. NOT_FOUND or PERMISSION_DENIED when the folder cannot be read, FAILED_PRECONDITION
// when others than root and this process's user may write to it, RESOURCE_EXHAUSTED for more than
// kMostVettedImages.
absl::StatusOr<VettedFolder> ReadVettedFolder(const std::string& dir,
                                              std::vector<std::string>* unreadable);

// Writes a program, in place of one of the same name; a reader finds the former or the new one.
// `from` is for people. INVALID_ARGUMENT for a name that is none.
absl::Status WriteProgram(const std::string& dir, const std::string& name, const std::string& from,
                          const std::vector<VettedImage>& images);

// NOT_FOUND when there is no such program.
absl::Status RemoveProgram(const std::string& dir, const std::string& name);

}  // namespace warpline

#endif  // WARPLINE_COMMON_VETTED_PROGRAM_FOLDER_H_
