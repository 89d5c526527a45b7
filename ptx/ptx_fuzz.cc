// Fuzz target: text that parses must print to text that parses to the same tree.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ptx/parser.h"
#include "ptx/printer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpline::ptx;
  ParseLimits limits;
  limits.text_bytes = 1 << 20;
  limits.init_elements = 100'000;
  const absl::StatusOr<Module> module =
      Parse(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (!module.ok()) return 0;
  const std::string printed = Print(*module);
  const absl::StatusOr<Module> again = Parse(printed);
  if (!again.ok() || !(*again == *module) || Print(*again) != printed) std::abort();
  return 0;
}
