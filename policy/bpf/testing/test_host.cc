#include "policy/bpf/testing/test_host.h"

#include <array>
#include <cstddef>

#include "policy/bpf/helpers.h"

namespace warpline::policy::bpf::testing {
namespace {

uint64_t NowNs(void* self, const uint64_t* /*arguments*/) {
  return static_cast<TestHost*>(self)->now_ns++;
}

uint64_t Audit(void* self, const uint64_t* arguments) {
  static_cast<TestHost*>(self)->audited.push_back(arguments[0]);
  return 0;
}

uint64_t Sum(void* /*self*/, const uint64_t* arguments) {
  return arguments[0] + arguments[1] + arguments[2] + arguments[3] + arguments[4];
}

constexpr std::array kFields = {
    Field{offsetof(TestContext, a), 8},
    Field{offsetof(TestContext, b), 4},
    Field{offsetof(TestContext, c), 4},
    Field{offsetof(TestContext, d), 2},
    Field{offsetof(TestContext, hidden), 2, false},
    Field{offsetof(TestContext, e), 4},
    Field{offsetof(TestContext, f), 8},
};

constexpr std::array kHooks = {Hook{"test", sizeof(TestContext), kFields}};

constexpr std::array kHelpers = {
    kMapLookup,
    kMapAdd,
    Helper{TestHost::kNowNs, "now_ns", Result::kScalar, {}, NowNs},
    Helper{TestHost::kAudit, "audit", Result::kScalar, {Argument::kScalar}, Audit},
    Helper{TestHost::kSum,
           "sum",
           Result::kScalar,
           {Argument::kScalar, Argument::kScalar, Argument::kScalar, Argument::kScalar,
            Argument::kScalar},
           Sum},
    Helper{TestHost::kMisdeclared, "misdeclared", Result::kValueOrNull, {}, NowNs},
};

}  // namespace

const Hook& TestHook() { return kHooks[0]; }

absl::Span<const Helper> TestHelpers() { return kHelpers; }

HostInterface TestHost::Interface() {
  return {.abi_version = 1, .hooks = kHooks, .helpers = kHelpers, .self = this};
}

std::vector<MapShape> TestMaps() {
  return {{"map0", MapKind::kArray, 4, 2, 4},
          {"map1", MapKind::kHash, 8, 2, 4},
          {"map2", MapKind::kHash, 12, 1, 2}};
}

}  // namespace warpline::policy::bpf::testing
