// Fuzz target: whatever the bytes are, parsing and decompressing stay within them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/fatbin/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpline::fatbin;
  const auto entries = ParseImage(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!entries.ok()) return 0;
  volatile char sink = 0;
  for (const ImageEntry& entry : *entries) {
    // Touch both ends, so that a view outside of the input is noticed.
    if (!entry.payload.empty()) sink = sink + entry.payload.front() + entry.payload.back();
    const auto payload = EntryPayload(entry, 1 << 20);
    if (payload.ok() && !payload->empty()) sink = sink + payload->back();
  }
  return 0;
}
