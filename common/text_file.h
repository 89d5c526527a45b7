// Reads the small files that people, scripts and other programs write for us: credentials, tokens,
// endpoints, keys and certificates. They come with line ends of any system, and some editors put a
// mark of the byte order in front. Both are taken away here, and nowhere else.
//
// Example:
//
//   const absl::StatusOr<std::string> credential = ReadWordFile("/run/secrets/credential");
//   if (!credential.ok()) return credential.status();  // "cannot read /run/...: it is empty"
#ifndef WARPLINE_COMMON_TEXT_FILE_H_
#define WARPLINE_COMMON_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

// A token has at most 2 KiB; the longest words are a cluster's ServiceAccount tokens.
inline constexpr size_t kMaxWordBytes = 16 << 10;

// These functions are thread-safe. Their errors name the file, and quote nothing that is in it.

// Returns `bytes` without a mark of UTF-8 at their beginning. INVALID_ARGUMENT for UTF-16.
absl::StatusOr<std::string> TextOf(std::string bytes);

// Returns the text of the file at `path`, as TextOf() does. NOT_FOUND when there is no such file,
// PERMISSION_DENIED when it may not be read, INVALID_ARGUMENT for more than `max_bytes`, for
// UTF-16, and for what is no file. Never waits for another process.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes);

// Returns the one word of the file at `path`, which may be a pipe. The errors are those of
// ReadTextFile() and OnlyWordOf().
absl::StatusOr<std::string> ReadWordFile(const std::string& path);
// The same for a file that has to belong to this process's user; PERMISSION_DENIED otherwise.
absl::StatusOr<std::string> ReadOwnWordFile(const std::string& path);

// Returns the one word of `text`, such as an environment variable's value, without white space
// around it and without a mark of UTF-8 in front. INVALID_ARGUMENT when it has no word, several, or
// characters that no word has.
absl::StatusOr<std::string> OnlyWordOf(absl::string_view text);

}  // namespace warpline

#endif  // WARPLINE_COMMON_TEXT_FILE_H_
