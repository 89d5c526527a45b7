#include "server/gpu_server/policies/dispatch_policies.h"

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/record.h"
#include "common/log/log.h"
#include "policy/builtin.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::server {
namespace {

// The name under which the file of --dispatch is listed.
constexpr char kFromFile[] = "dispatch-file";

absl::StatusOr<std::string> ReadObject(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::string bytes(PolicyBook::kMostObjectBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

void Add(audit::AuditLog* log, audit::Event event, const std::string& policy,
         std::pair<const char*, std::string> text) {
  if (log == nullptr) return;
  log->Add({.event = event, .texts = {{"name", policy}, std::move(text)}});
}

}  // namespace

absl::StatusOr<DispatchPolicies> MakeDispatchPolicies(const DispatchPoliciesOptions& options) {
  const bool from_file = absl::StrContains(options.policy, '/');
  DispatchPolicies made;
  dispatch::DispatcherOptions dispatcher;
  dispatcher.policy = from_file ? policy::PolicyNames().front() : options.policy;
  dispatcher.arbiter.quantum_ns = absl::ToInt64Nanoseconds(options.quantum);
  dispatcher.arbiter.expect_ns = absl::ToInt64Nanoseconds(options.expect);
  PolicyBookOptions book;
  book.first = dispatcher.policy;
  book.now_ns = [] { return static_cast<uint64_t>(dispatch::MonotonicNs()); };
  book.audit = [audit = options.audit](const std::string& name, uint64_t code) {
    Add(audit, audit::Event::kPolicyNote, name, {"code", absl::StrCat(code)});
  };
  // Both are set before any session has a registration, until which no policy is asked.
  auto target = std::make_shared<dispatch::Dispatcher*>(nullptr);
  book.use = [target](std::shared_ptr<policy::Policy> policy) {
    (*target)->SetPolicy(std::move(policy));
  };
  made.book = std::make_unique<PolicyBook>(std::move(book));
  dispatcher.policy_failed = [at = made.book.get(), audit = options.audit](
                                 const std::shared_ptr<policy::Policy>& failed,
                                 const std::string& why) {
    const std::string name(failed->name());
    LogWarning("policy is replaced by band name=", name, " why=\"", why, "\"");
    Add(audit, audit::Event::kPolicyFailed, name, {"reason", why});
    at->OnFailed(failed.get(), why);
  };
  auto created = dispatch::Dispatcher::Create(std::move(dispatcher));
  if (!created.ok()) return created.status();
  made.dispatcher = *std::move(created);
  *target = made.dispatcher.get();
  if (!from_file) return made;
  auto object = ReadObject(options.policy);
  if (!object.ok()) return object.status();
  const auto loaded = made.book->Load(kFromFile, *std::move(object));
  if (!loaded.ok()) {
    return absl::Status(loaded.status().code(),
                        absl::StrCat(options.policy, ": ", loaded.status().message()));
  }
  if (const absl::Status used = made.book->Use(kFromFile); !used.ok()) return used;
  return made;
}

}  // namespace warpline::server
