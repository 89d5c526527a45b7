#include "server/gpu_server/admin/upgrade_method.h"

#include "common/text.h"
#include "proto/admin.pb.h"

namespace warpline::server {

using warpline_internal::UpgradeRequest;

namespace {

constexpr size_t kMostNumberBytes = 64;
constexpr size_t kMostPathBytes = 4096;

}  // namespace

absl::StatusOr<std::string> AnswerUpgrade(ParentLink* parent, const std::string& request) {
  UpgradeRequest parsed;
  if (!parsed.ParseFromString(request) || parsed.number().empty() ||
      parsed.number().size() > kMostNumberBytes || parsed.program().size() > kMostPathBytes) {
    return absl::InvalidArgumentError("a malformed request");
  }
  if (parent == nullptr) {
    return absl::FailedPreconditionError(
        "this server was not started with --upgrades, and can only be restarted "
        "(docs/operations.md says how sessions outlive that)");
  }
  return parent->Answer(parsed).SerializeAsString();
}

std::optional<audit::Record> DescribeUpgrade(const std::string& request) {
  UpgradeRequest parsed;
  if (!parsed.ParseFromString(request) || parsed.only_ask()) return std::nullopt;
  return audit::Record{.event = audit::Event::kAdminUpgrade,
                       .texts = {{"program", parsed.program()}}};
}

}  // namespace warpline::server
