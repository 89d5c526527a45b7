// Tells tests whether OpenSSL is taken down when the process exits.
#ifndef WARPLINE_COMMON_CRYPTO_OPENSSL_AT_EXIT_H_
#define WARPLINE_COMMON_CRYPTO_OPENSSL_AT_EXIT_H_

#include <openssl/crypto.h>
#include <unistd.h>

#include <cstdlib>

namespace warpline {

// Exits with 7 if OpenSSL, as it was set up so far, is taken down on the way, else with 0. For
// EXPECT_EXIT() in the style "threadsafe", which begins with nothing set up.
[[noreturn]] inline void ExitAndSeeOpenSsl() {
  OPENSSL_atexit([] { _exit(7); });
  std::exit(0);
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_OPENSSL_AT_EXIT_H_
