#include "common/crypto/secret.h"

#include <errno.h>
#include <sys/random.h>

#include <cstdlib>
#include <cstring>

#include "common/log/log.h"

namespace warpline {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t filled = 0; filled < count;) {
    const ssize_t n = getrandom(bytes.data() + filled, count - filled, 0);
    if (n > 0) {
      filled += static_cast<size_t>(n);
    } else if (n < 0 && errno != EINTR) {
      LogError("no random bytes: errno=", errno);
      std::abort();
    }
  }
  return bytes;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (number == 0) std::memcpy(&number, RandomBytes(sizeof(number)).data(), sizeof(number));
  return number;
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differ = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differ = differ | static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return differ == 0;
}

}  // namespace warpline
