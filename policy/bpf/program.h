// A policy: an object's programs, verified and ready to run, and its maps.
//
//   const HostInterface host = {.abi_version = 1, .hooks = kHooks, .helpers = kHelpers};
//   absl::StatusOr<std::unique_ptr<Program>> program = Program::Load(bytes, host);
//   if (!program.ok()) return program.status();  // "on_dispatch: pc 7: r3 is read, ..."
//   std::optional<uint64_t> verdict = (*program)->Run(kDispatchHook, &context, sizeof(context));
//   if (!verdict) ...  // The object has no program for this hook.
#ifndef WARPLINE_POLICY_BPF_PROGRAM_H_
#define WARPLINE_POLICY_BPF_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/bpf/host_interface.h"
#include "policy/bpf/interpreter.h"
#include "policy/bpf/map.h"

namespace warpline::policy::bpf {

// Thread-safe: immutable but for the cells of its maps, which are atomics. A program may run on
// many threads at once; then what it computes from several cells is its author's to get right.
class Program {
 public:
  // Reads, verifies and links an object. Takes some microseconds for each hundred instructions, and
  // as many bytes as the maps have, so it is not for the thread that dispatches.
  //
  // INVALID_ARGUMENT for an object that is not one, was made for another version of the interface,
  // has a program for a hook that the host does not have, or one that the verifier refuses;
  // RESOURCE_EXHAUSTED for maps that take more than the host allows. The bytes may be hostile.
  //
  // A map of the same name and shape as one of `previous` is that one, with all that is in it, if
  // both were made for the same version. Programs share maps so that a new one can be
  // tried and the old one taken back: `previous` may go on running.
  static absl::StatusOr<std::unique_ptr<Program>> Load(std::string_view object,
                                                       const HostInterface& host,
                                                       const Program* previous = nullptr);

  // Whether there is a program for host.hooks[hook].
  bool Has(size_t hook) const { return hook < programs_.size() && !programs_[hook].empty(); }

  // What the hook's program returns for the context, which is aligned to 8. Nothing if there is no
  // such program, or the context is smaller than the hook's table says; the embedder then does what
  // it does by itself.
  std::optional<uint64_t> Run(size_t hook, const void* context, size_t context_bytes) const;

  uint32_t abi_version() const { return host_.abi_version; }
  // Of WARPLINE_ASK_ALWAYS(), in milliseconds; 0 where the object does not say it.
  uint32_t ask_always_ms() const { return ask_always_ms_; }
  // Whether it has WARPLINE_EXPECT_ARRIVALS().
  bool expects_arrivals() const { return expects_arrivals_; }
  // In the order of the object. Null for a name that it does not have.
  const std::vector<std::shared_ptr<Map>>& maps() const { return maps_; }
  Map* FindMap(std::string_view name) const;

 private:
  explicit Program(const HostInterface& host);

  const HostInterface host_;
  uint32_t ask_always_ms_ = 0;
  bool expects_arrivals_ = false;
  std::vector<std::shared_ptr<Map>> maps_;
  std::vector<Executable> programs_;  // One for each hook; empty where the object has none.
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_PROGRAM_H_
