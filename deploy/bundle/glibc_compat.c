// What the bundle's libstdc++ asks of glibc 2.36 and older systems lack: arc4random(), which it
// uses for std::random_device. Becomes a dependency of the bundle's libstdc++ only.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void) {
  uint32_t value;
  // Up to 256 bytes are never cut short once the kernel's generator is ready; before that a signal
  // can interrupt the wait.
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}
