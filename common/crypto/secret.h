// Makes secrets, and compares what a peer shows with them.
#ifndef WARPLINE_COMMON_CRYPTO_SECRET_H_
#define WARPLINE_COMMON_CRYPTO_SECRET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// Returns `count` bytes that cannot be guessed. Ends the process on a kernel that has none to give;
// such a kernel is older than any that Warpline runs on.
std::string RandomBytes(size_t count);

// Returns a number that cannot be guessed and is not 0.
uint64_t RandomNumber();

// Whether the two are equal. The time that it takes does not depend on where they differ.
bool EqualSecrets(absl::string_view a, absl::string_view b);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_SECRET_H_
