#include "server/gpu_server/policies/policy_methods.h"

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "common/crypto/content_hash.h"
#include "proto/admin.pb.h"

namespace warpline::server {
namespace {

using warpline_internal::PolicyReply;
using warpline_internal::PolicyRequest;

absl::Status Do(PolicyBook* book, PolicyRequest* request) {
  switch (request->action()) {
    case PolicyRequest::LIST:
      return absl::OkStatus();
    case PolicyRequest::LOAD:
      return book->Load(request->name(), std::move(*request->mutable_object())).status();
    case PolicyRequest::SWAP:
      return book->Use(request->name());
    case PolicyRequest::ROLL_BACK:
      return book->RollBack().status();
    case PolicyRequest::REMOVE:
      return book->Remove(request->name());
    default:
      return absl::InvalidArgumentError("an action that this server does not have");
  }
}

}  // namespace

absl::StatusOr<std::string> AnswerPolicy(PolicyBook* book, const std::string& request) {
  PolicyRequest parsed;
  if (!parsed.ParseFromString(request)) return absl::InvalidArgumentError("a malformed request");
  if (book == nullptr) {
    return absl::FailedPreconditionError(
        "this server was started with --dispatch=off, and has no use for policies");
  }
  if (const absl::Status done = Do(book, &parsed); !done.ok()) return done;
  const PolicyState state = book->State();
  const absl::Time now = absl::Now();
  PolicyReply reply;
  for (const LoadedPolicy& from : state.policies) {
    auto* const to = reply.add_policies();
    to->set_name(from.name);
    to->set_built_in(from.built_in);
    to->set_in_use(from.in_use);
    to->set_sha256(from.sha256);
    if (!from.built_in) to->set_age_seconds(absl::ToDoubleSeconds(now - from.loaded));
    for (const std::string& hook : from.hooks) to->add_hooks(hook);
    to->set_map_bytes(from.map_bytes);
  }
  reply.set_in_use(state.in_use);
  reply.set_former(state.former);
  reply.set_failure(state.failure);
  if (!state.failure.empty()) {
    reply.set_failed_seconds_ago(absl::ToDoubleSeconds(now - state.failed));
  }
  return reply.SerializeAsString();
}

std::optional<audit::Record> DescribePolicy(const std::string& request) {
  PolicyRequest parsed;
  if (!parsed.ParseFromString(request) || parsed.action() == PolicyRequest::LIST) {
    return std::nullopt;
  }
  audit::Record record{.event = audit::Event::kAdminPolicy};
  record.texts.emplace_back("action",
                            PolicyRequest::Action_IsValid(parsed.action())
                                ? absl::AsciiStrToLower(PolicyRequest::Action_Name(parsed.action()))
                                : "unknown");
  record.texts.emplace_back("name", parsed.name());
  ContentHash hash = {};
  if (parsed.action() == PolicyRequest::LOAD && HashContent(parsed.object(), &hash)) {
    record.texts.emplace_back("sha256", HashText(hash));
  }
  return record;
}

}  // namespace warpline::server
