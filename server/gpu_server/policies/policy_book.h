// The policies that an operator has loaded, and which of them the dispatcher asks.
//
//   PolicyBook book(options);
//   auto loaded = book.Load("urgent-first", object);   // verified, and not yet in use
//   if (!loaded.ok()) return loaded.status();           // "on_dispatch: pc 7: ..."
//   absl::Status used = book.Use("urgent-first");
//   ...
//   auto back = book.RollBack();                        // what was in use before
#ifndef WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "policy/bpf/bpf_policy.h"
#include "policy/policy.h"

namespace warpline::server {

struct PolicyBookOptions {
  // Built in, and in use at first: a name that policy::MakePolicy() knows.
  std::string first = "band";
  // Has the dispatcher ask this one from now on. Called under the book's lock.
  std::function<void(std::shared_ptr<policy::Policy>)> use;
  // What policies' helper functions of these names do; both are called on the dispatcher's thread.
  std::function<uint64_t()> now_ns;
  std::function<void(const std::string& policy, uint64_t code)> audit;
};

struct LoadedPolicy {
  std::string name;
  bool built_in = false;
  bool in_use = false;
  // Of an object: its hash in hexadecimal digits, when it was loaded, which hooks it answers.
  std::string sha256;
  absl::Time loaded;
  std::vector<std::string> hooks;
  uint64_t map_bytes = 0;
};

struct PolicyState {
  std::vector<LoadedPolicy> policies;  // Those that are built in first.
  std::string in_use;
  // What RollBack() would use; empty for nothing.
  std::string former;
  // Why and when the last policy that failed was replaced; empty if none was.
  std::string failure;
  absl::Time failed;
};

// Thread-safe.
class PolicyBook {
 public:
  static constexpr size_t kMostLoaded = 16;
  static constexpr size_t kMostObjectBytes = 512 << 10;

  explicit PolicyBook(PolicyBookOptions options);

  // Verifies an object and keeps it by a name of letters, digits, '-', '_' and '.', in place of the
  // one that had it before; a policy that is in use goes on as it is until Use(). INVALID_ARGUMENT
  // for a name that is none or is built in, and for an object that is refused, with the reason;
  // RESOURCE_EXHAUSTED for one that is too large or one too many.
  absl::StatusOr<LoadedPolicy> Load(const std::string& name, std::string object);
  // The dispatcher asks this one from now on. A map of the one before that has the same name and
  // shape goes on with what is in it. NOT_FOUND for a name that there is not.
  absl::Status Use(const std::string& name);
  // Goes back to the policy before the last Use(), as it was, and returns its name.
  // FAILED_PRECONDITION when there is none.
  absl::StatusOr<std::string> RollBack();
  // Forgets an object. NOT_FOUND, and FAILED_PRECONDITION for one that is in use.
  absl::Status Remove(const std::string& name);
  // The policy in use has failed, and the dispatcher asks BAND already. Does nothing if it is not
  // the one in use any more.
  void OnFailed(const policy::Policy* failed, const std::string& why);

  PolicyState State() const;

 private:
  // A policy as the dispatcher asks it.
  struct Running {
    std::string name;
    std::shared_ptr<policy::Policy> policy;
    // The same, if it is from an object: its maps are what the next one takes over.
    std::shared_ptr<policy::bpf::BpfPolicy> program;
  };
  struct Object {
    std::string bytes;
    LoadedPolicy info;
  };

  absl::StatusOr<std::shared_ptr<policy::bpf::BpfPolicy>> Verify(
      const std::string& name, std::string_view object,
      const policy::bpf::BpfPolicy* previous) const;
  absl::StatusOr<Running> Make(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PolicyBookOptions options_;
  mutable Mutex mu_;
  std::map<std::string, Object> objects_ ABSL_GUARDED_BY(mu_);
  Running current_ ABSL_GUARDED_BY(mu_);
  Running former_ ABSL_GUARDED_BY(mu_);
  std::string failure_ ABSL_GUARDED_BY(mu_);
  absl::Time failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_BOOK_H_
