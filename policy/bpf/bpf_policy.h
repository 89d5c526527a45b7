// A policy that is an eBPF object: each hook asks the object's program, if it has one.
#ifndef WARPLINE_POLICY_BPF_BPF_POLICY_H_
#define WARPLINE_POLICY_BPF_BPF_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/bpf/program.h"
#include "policy/policy.h"

namespace warpline::policy::bpf {

struct BpfPolicyOptions {
  std::string name;
  // What the helper functions of the same names do. They must end soon and must not throw.
  std::function<uint64_t()> now_ns;
  std::function<void(uint64_t code)> audit;
};

// As a Policy it is called by one thread at a time; maps() may be read and written at any time.
class BpfPolicy : public Policy {
 public:
  // The errors of Program::Load(). Maps of `previous` are taken over as it says.
  static absl::StatusOr<std::unique_ptr<BpfPolicy>> Load(std::string_view object,
                                                         BpfPolicyOptions options,
                                                         const BpfPolicy* previous = nullptr);

  // Where the object has no program for a hook, or its verdict is none, the default.
  std::string_view name() const override { return options_.name; }
  Wishes wishes() const override;
  Verdict OnSubmit(const SubmitContext& context) override;
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext& context) override;
  void OnRetire(const RetireContext& context) override;
  Verdict OnMemFault(const MemFaultContext& context) override;
  Verdict OnReclaim(const ReclaimContext& context) override;
  Verdict OnCopyEnqueue(const CopyEnqueueContext& context) override;
  Verdict OnPower(const PowerContext& context) override;
  Verdict OnThermal(const ThermalContext& context) override;

  const Program& program() const { return *program_; }
  // The names of the hooks that the object has programs for, and the memory of its maps.
  std::vector<std::string> HookNames() const;
  uint64_t MapBytes() const;

 private:
  explicit BpfPolicy(BpfPolicyOptions options);

  static uint64_t NowNs(void* self, const uint64_t* arguments);
  static uint64_t Audit(void* self, const uint64_t* arguments);
  Verdict Ask(size_t hook, const void* context, size_t bytes) const;

  // Constant after Load().
  BpfPolicyOptions options_;
  std::unique_ptr<Program> program_;  // Refers to this object.
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_BPF_POLICY_H_
