// Text from tenants, made fit for messages and reports.
#ifndef WARPLINE_COMMON_TEXT_H_
#define WARPLINE_COMMON_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// True when `text` is UTF-8, as the `string` fields of protobuf messages have to be: a message with
// other bytes in one is refused by who reads it.
bool IsUtf8(absl::string_view text);

// At most `max_bytes` of `text`, always UTF-8: what is not is written as "\xff" and the like.
std::string FitText(absl::string_view text, size_t max_bytes);

// `text` between double quotes, with a backslash before those and backslashes in it: one value of a
// log line, whatever it says.
std::string Quoted(absl::string_view text);

// Whether `text` is a name: 1 to `max_bytes` letters, digits and characters of `others`.
bool IsPlainName(absl::string_view text, size_t max_bytes, absl::string_view others);

}  // namespace warpline

#endif  // WARPLINE_COMMON_TEXT_H_
