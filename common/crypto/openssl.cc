#include "common/crypto/openssl.h"

#include <openssl/crypto.h>

namespace warpline {

void UseOpenSsl() {
  static const int set_up = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  (void)set_up;
}

}  // namespace warpline
