#include "policy/bpf/testing/policy_host.h"

#include <array>

#include "policy/bpf/contexts.h"
#include "policy/bpf/helpers.h"
#include "policy/include/warpline_policy.h"

namespace warpline::policy::bpf::testing {
namespace {

uint64_t NowNs(void* self, const uint64_t* /*arguments*/) {
  return static_cast<PolicyHost*>(self)->now_ns;
}

uint64_t Audit(void* self, const uint64_t* arguments) {
  static_cast<PolicyHost*>(self)->audited.push_back(arguments[0]);
  return 0;
}

constexpr std::array kHelpers = {
    kMapLookup,
    kMapAdd,
    Helper{WARPLINE_NOW_NS, "now_ns", Result::kScalar, {}, NowNs},
    Helper{WARPLINE_AUDIT, "audit", Result::kScalar, {Argument::kScalar}, Audit},
};
static_assert(kMapLookup.number == WARPLINE_MAP_LOOKUP && kMapAdd.number == WARPLINE_MAP_ADD);

}  // namespace

HostInterface PolicyHost::Interface() {
  return {.abi_version = WARPLINE_POLICY_ABI,
          .hooks = WarplineHooks(),
          .helpers = kHelpers,
          .self = this};
}

}  // namespace warpline::policy::bpf::testing
