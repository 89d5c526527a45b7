#include "server/gpu_server/policies/policy_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/crypto/content_hash.h"
#include "common/given_name.h"
#include "policy/builtin.h"

namespace warpline::server {
namespace {

constexpr size_t kMostNameBytes = 64;
// Replaces one that fails.
constexpr char kFallback[] = "band";

bool IsBuiltIn(std::string_view name) {
  const std::vector<std::string> known = policy::PolicyNames();
  return std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

PolicyBook::PolicyBook(PolicyBookOptions options) : options_(std::move(options)) {
  MutexLock lock(&mu_);
  current_.name = options_.first;
}

absl::StatusOr<std::shared_ptr<policy::bpf::BpfPolicy>> PolicyBook::Verify(
    const std::string& name, std::string_view object,
    const policy::bpf::BpfPolicy* previous) const {
  policy::bpf::BpfPolicyOptions options;
  options.name = name;
  options.now_ns = options_.now_ns;
  options.audit = [audit = options_.audit, name](uint64_t code) { audit(name, code); };
  auto program = policy::bpf::BpfPolicy::Load(object, std::move(options), previous);
  if (!program.ok()) return program.status();
  return std::shared_ptr<policy::bpf::BpfPolicy>(*std::move(program));
}

absl::StatusOr<LoadedPolicy> PolicyBook::Load(const std::string& name, std::string object) {
  if (auto status = CheckGivenName("policy", name, kMostNameBytes, "-_."); !status.ok()) {
    return status;
  }
  if (IsBuiltIn(name)) {
    return absl::InvalidArgumentError(absl::StrCat("the policy ", name, " is built in"));
  }
  if (object.size() > kMostObjectBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("an object has at most ", kMostObjectBytes,
                                                     " bytes, and this one has ", object.size()));
  }
  const auto program = Verify(name, object, nullptr);
  if (!program.ok()) return program.status();
  ContentHash hash = {};
  if (!HashContent(object, &hash)) return absl::InternalError("no SHA-256: OpenSSL failed");
  LoadedPolicy info;
  info.name = name;
  info.sha256 = HashText(hash);
  info.loaded = absl::Now();
  info.hooks = (*program)->HookNames();
  info.map_bytes = (*program)->MapBytes();
  MutexLock lock(&mu_);
  if (!objects_.contains(name) && objects_.size() >= kMostLoaded) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostLoaded, " policies are loaded already: remove one"));
  }
  objects_[name] = {std::move(object), info};
  info.in_use = current_.name == name;
  return info;
}

absl::StatusOr<PolicyBook::Running> PolicyBook::Make(const std::string& name) {
  if (IsBuiltIn(name)) return Running{name, *policy::MakePolicy(name), nullptr};
  const auto found = objects_.find(name);
  if (found == objects_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no policy ", name, ": built in are ",
                                            absl::StrJoin(policy::PolicyNames(), ", "),
                                            ", and others are loaded first"));
  }
  auto program = Verify(name, found->second.bytes, current_.program.get());
  if (!program.ok()) return program.status();
  return Running{name, *program, *program};
}

absl::Status PolicyBook::Use(const std::string& name) {
  MutexLock lock(&mu_);
  auto next = Make(name);
  if (!next.ok()) return next.status();
  former_ = std::exchange(current_, *std::move(next));
  options_.use(current_.policy);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PolicyBook::RollBack() {
  MutexLock lock(&mu_);
  if (former_.name.empty()) {
    return absl::FailedPreconditionError("no other policy has been in use before this one");
  }
  // The one that the server began with is made when it is wanted again.
  if (former_.policy == nullptr) former_.policy = *policy::MakePolicy(former_.name);
  std::swap(former_, current_);
  options_.use(current_.policy);
  return current_.name;
}

absl::Status PolicyBook::Remove(const std::string& name) {
  MutexLock lock(&mu_);
  if (!objects_.contains(name)) {
    return absl::NotFoundError(absl::StrCat("no policy ", name, " is loaded"));
  }
  if (current_.name == name) {
    return absl::FailedPreconditionError(
        absl::StrCat("the policy ", name, " is in use: use another one first"));
  }
  objects_.erase(name);
  return absl::OkStatus();
}

void PolicyBook::OnFailed(const policy::Policy* failed, const std::string& why) {
  MutexLock lock(&mu_);
  if (current_.policy.get() != failed) return;
  failure_ = absl::StrCat(current_.name, ": ", why);
  failed_ = absl::Now();
  // Not to be gone back to: what was in use before it stays what RollBack() means.
  current_ = {kFallback, *policy::MakePolicy(kFallback), nullptr};
  options_.use(current_.policy);
}

PolicyState PolicyBook::State() const {
  MutexLock lock(&mu_);
  PolicyState state;
  for (const std::string& name : policy::PolicyNames()) {
    LoadedPolicy info;
    info.name = name;
    info.built_in = true;
    info.in_use = name == current_.name;
    state.policies.push_back(std::move(info));
  }
  for (const auto& [name, object] : objects_) {
    state.policies.push_back(object.info);
    state.policies.back().in_use = name == current_.name;
  }
  state.in_use = current_.name;
  state.former = former_.name;
  state.failure = failure_;
  state.failed = failed_;
  return state;
}

}  // namespace warpline::server
