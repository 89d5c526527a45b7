// A host with the hooks and helpers of warpline_policy.h, for tests of policies.
#ifndef WARPLINE_POLICY_BPF_TESTING_POLICY_HOST_H_
#define WARPLINE_POLICY_BPF_TESTING_POLICY_HOST_H_

#include <cstdint>
#include <vector>

#include "policy/bpf/host_interface.h"

namespace warpline::policy::bpf::testing {

// Not thread-safe.
class PolicyHost {
 public:
  // Refers to this object.
  HostInterface Interface();

  uint64_t now_ns = 0;
  std::vector<uint64_t> audited;
};

}  // namespace warpline::policy::bpf::testing

#endif  // WARPLINE_POLICY_BPF_TESTING_POLICY_HOST_H_
