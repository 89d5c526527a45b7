// A host for tests: one hook with a small context, maps of three shapes, and helpers that are
// deterministic and keep what they were told.
#ifndef WARPLINE_POLICY_BPF_TESTING_TEST_HOST_H_
#define WARPLINE_POLICY_BPF_TESTING_TEST_HOST_H_

#include <cstdint>
#include <vector>

#include "policy/bpf/host_interface.h"
#include "policy/bpf/map.h"

namespace warpline::policy::bpf::testing {

struct TestContext {
  uint64_t a = 0;
  uint32_t b = 0;
  int32_t c = 0;
  uint16_t d = 0;
  uint16_t hidden = 0;  // The hook's table does not let programs read it.
  uint32_t e = 0;
  uint64_t f = 0;
};

// Not thread-safe.
class TestHost {
 public:
  // Refers to this object.
  HostInterface Interface();

  // Clock readings begin with this and go up by one.
  uint64_t now_ns = 1000;
  std::vector<uint64_t> audited;

  static constexpr int kNowNs = 3;
  static constexpr int kAudit = 4;
  static constexpr int kSum = 9;           // Of five numbers.
  static constexpr int kMisdeclared = 10;  // Says that it returns a value, and takes no map.
};

// The table of the hook "test", whose context is TestContext.
const Hook& TestHook();
absl::Span<const Helper> TestHelpers();

// map 0: an array of 4 entries of 2 cells; map 1: a hash with keys of 8 bytes, 4 entries of 2
// cells; map 2: a hash with keys of 12 bytes, 2 entries of 1 cell.
std::vector<MapShape> TestMaps();

}  // namespace warpline::policy::bpf::testing

#endif  // WARPLINE_POLICY_BPF_TESTING_TEST_HOST_H_
