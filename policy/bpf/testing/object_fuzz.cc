// Fuzz target: whatever an object's bytes are, it is refused or its programs run.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "policy/bpf/contexts.h"
#include "policy/bpf/program.h"
#include "policy/bpf/testing/policy_host.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpline::policy::bpf;
  testing::PolicyHost host;
  const absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Load({reinterpret_cast<const char*>(data), size}, host.Interface());
  if (!program.ok()) return 0;
  alignas(8) static constexpr std::array<char, 256> kContext = {};
  for (size_t hook = 0; hook < kWarplineHooks; ++hook) {
    (*program)->Run(hook, kContext.data(), WarplineHooks()[hook].context_bytes);
  }
  return 0;
}
