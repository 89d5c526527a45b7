// A library that has most of the static thread-local storage which a process keeps for libraries
// that are loaded late.
#include <string.h>

static __thread char block[1280] __attribute__((tls_model("initial-exec")));

int take_static_tls(int value) {
  memset(block, value, sizeof(block));
  return block[sizeof(block) - 1];
}
