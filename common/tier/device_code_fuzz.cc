// Fuzz target: whatever a file holds, looking for its device code stays within it, and what is
// found can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/elf/sections.h"
#include "common/tier/device_code.h"
#include "common/tier/device_code_sections.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpline::tier;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const DeviceCode code = FindDeviceCode(bytes);
  if (ParseDeviceCode(FormatDeviceCode(code)) != code) abort();
  (void)ObstacleOn(code, 90);
  (void)ParseDeviceCode(bytes);
  const auto read = [bytes](uint64_t offset, uint64_t count) {
    if (offset > bytes.size()) abort();
    return std::string(bytes.substr(offset, count));
  };
  const auto sections = DeviceCodeSections(read, size);
  if (!sections.has_value()) return 0;
  for (const warpline::elf::FileRange& range : *sections) {
    if (range.offset > size || range.bytes > size - range.offset) abort();
  }
  return 0;
}
