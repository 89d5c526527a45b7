// Fuzz target: whatever the text, the verifier accepts or refuses it and does nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guard/verify/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using warpline::guard::Verify;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Verify(text, {.arena_bits = 36, .hardened = false}).IgnoreError();
  Verify(text, {.arena_bits = 32, .hardened = true}).IgnoreError();
  return 0;
}
