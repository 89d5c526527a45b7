// Secrets: making them, and comparing what a peer shows.
#ifndef WARPLINE_COMMON_CRYPTO_SECRET_H_
#define WARPLINE_COMMON_CRYPTO_SECRET_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// `count` bytes that nobody can guess. Ends the process on a kernel that has none to give, which is
// one older than any that this runs on.
std::string RandomBytes(size_t count);

// Equal, in a time that does not depend on where they differ.
bool EqualSecrets(absl::string_view a, absl::string_view b);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_SECRET_H_
