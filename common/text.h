// Makes text from tenants fit for messages and reports.
#ifndef WARPLINE_COMMON_TEXT_H_
#define WARPLINE_COMMON_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// True when `text` is UTF-8, as the `string` fields of protobuf messages must be: a receiver
// refuses a message with other bytes in one.
bool IsUtf8(absl::string_view text);

// At most `max_bytes` of `text`, always as UTF-8: bytes that are not are written as "\xff" and the
// like.
std::string FitText(absl::string_view text, size_t max_bytes);

// Puts `text` between double quotes, with a backslash before each quote and backslash in it, so
// that it is one value of a log line whatever it says.
std::string Quoted(absl::string_view text);

// Whether `text` is a name of 1 to `max_bytes` letters, digits and characters of `others`.
bool IsPlainName(absl::string_view text, size_t max_bytes, absl::string_view others);

}  // namespace warpline

#endif  // WARPLINE_COMMON_TEXT_H_
