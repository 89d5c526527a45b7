#include "tools/cli/policy.h"

#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "policy/bpf/bpf_policy.h"
#include "tools/cli/administration.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::PolicyReply;
using warpline_internal::PolicyRequest;

constexpr char kMethod[] = "/warpline_internal.Admin/Policy";
// More than a server takes, so that it is the server that says so.
constexpr size_t kMostFileBytes = 768 << 10;

absl::StatusOr<std::string> ReadObject(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMostFileBytes + 1, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) && !file.eof()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  bytes.resize(static_cast<size_t>(file.gcount()));
  if (bytes.size() > kMostFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too large for a policy"));
  }
  return bytes;
}

absl::StatusOr<PolicyReply> Ask(const UnaryClient& admin, const PolicyRequest& request) {
  auto reply = CallUnary<PolicyReply>(&admin, kMethod, request, CallTimeout());
  if (absl::IsUnimplemented(reply.status())) {
    return absl::UnimplementedError("this server knows nothing of policies: it is older");
  }
  return reply;
}

absl::StatusOr<PolicyRequest> RequestOf(const CommandLine& line) {
  PolicyRequest request;
  if (line.action == "rollback") request.set_action(PolicyRequest::ROLL_BACK);
  if (line.action == "swap") request.set_action(PolicyRequest::SWAP);
  if (line.action == "remove") request.set_action(PolicyRequest::REMOVE);
  if (!line.rest.empty()) request.set_name(line.rest[0]);
  if (line.action != "load") return request;
  auto object = ReadObject(line.rest[0]);
  if (!object.ok()) return object.status();
  request.set_action(PolicyRequest::LOAD);
  request.set_name(line.Has("name") ? line.Text("name") : PolicyNameOf(line.rest[0]));
  request.set_object(*std::move(object));
  return request;
}

}  // namespace

std::string PolicyNameOf(const std::string& file) {
  absl::string_view name = file;
  name.remove_prefix(name.find_last_of('/') + 1);
  if (!absl::ConsumeSuffix(&name, ".o")) return std::string(name);
  absl::ConsumeSuffix(&name, ".bpf");
  return std::string(name);
}

absl::StatusOr<std::string> CheckPolicy(const std::string& object) {
  const auto policy = policy::bpf::BpfPolicy::Load(
      object, {.name = "checked", .now_ns = [] { return uint64_t{0}; }, .audit = [](uint64_t) {}});
  if (!policy.ok()) return policy.status();
  return absl::StrCat("accepted: ", absl::StrJoin((*policy)->HookNames(), ", "),
                      "; maps: ", (*policy)->program().maps().size(), " (",
                      ShownBytes((*policy)->MapBytes()), ")",
                      (*policy)->wishes().asked_always ? "; asked always" : "", "\n");
}

absl::StatusOr<std::string> Policy(const CommandLine& line, const std::string& endpoint) {
  if (line.action == "check") {
    const auto object = ReadObject(line.rest[0]);
    if (!object.ok()) return object.status();
    return CheckPolicy(*object);
  }
  auto request = RequestOf(line);
  if (!request.ok()) return request.status();
  const auto admin = AdminOf(endpoint);
  if (!admin.ok()) return admin.status();
  auto reply = Ask(*admin, *request);
  if (reply.ok() && line.action == "load" && line.Has("swap")) {
    request->set_action(PolicyRequest::SWAP);
    request->clear_object();
    reply = Ask(*admin, *request);
  }
  if (!reply.ok()) return reply.status();
  return line.Has("json") ? ToJson(*reply) : PoliciesReport(*reply);
}

std::string PoliciesReport(PolicyReply reply) {
  MakeShown(&reply);
  Table table({{"POLICY"}, {"USE"}, {"LOADED", true}, {"MAPS", true}, {"HOOKS"}, {"SHA256"}});
  for (const auto& policy : reply.policies()) {
    const std::string use = policy.in_use()                   ? "now"
                            : policy.name() == reply.former() ? "before"
                                                              : "-";
    table.Add({policy.name(), use, policy.built_in() ? "built in" : ShownAge(policy.age_seconds()),
               policy.map_bytes() == 0 ? "-" : ShownBytes(policy.map_bytes()),
               policy.built_in() ? "-" : absl::StrJoin(policy.hooks(), ","),
               policy.built_in() ? "-" : policy.sha256().substr(0, 12)});
  }
  std::string text = table.Text();
  if (!reply.failure().empty()) {
    absl::StrAppend(&text, "replaced by band ", ShownAge(reply.failed_seconds_ago()),
                    " ago: ", reply.failure(), "\n");
  }
  return text;
}

}  // namespace warpline::cli
