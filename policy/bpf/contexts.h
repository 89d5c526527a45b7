// The hooks of policy/include/warpline_policy.h, as the tables that the engine verifies against.
#ifndef WARPLINE_POLICY_BPF_CONTEXTS_H_
#define WARPLINE_POLICY_BPF_CONTEXTS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "policy/bpf/host_interface.h"

namespace warpline::policy::bpf {

// Where the hooks are in WarplineHooks().
enum WarplineHook : size_t {
  kOnSubmit,
  kOnDispatch,
  kOnPreempt,
  kOnRetire,
  kOnMemFault,
  kOnReclaim,
  kOnCopyEnqueue,
  kOnPower,
  kOnThermal,
  kWarplineHooks,
};

// Lives as long as the process.
absl::Span<const Hook> WarplineHooks();

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_CONTEXTS_H_
