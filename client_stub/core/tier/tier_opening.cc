#include "client_stub/core/tier/tier_opening.h"

#include <cuda.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client_stub/core/tier/tier_decision.h"
#include "common/log/log.h"
#include "common/tier/file_survey.h"
#include "common/tier/tier_record.h"
#include "proto/guard.h"
#include "proto/refusal.h"

namespace warpline::stub {
namespace {

// How long the server has to hear that a session is given up.
constexpr absl::Duration kCloseDeadline = absl::Seconds(2);

int ComputeCapability(const RemoteDevice& device) {
  return 10 * device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] +
         device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
}

}  // namespace

bool MayOpenIsolated(const absl::Status& refusal) {
  if (RefusalOf(refusal).reason() == warpline_internal::Refusal::TIER) return true;
  switch (refusal.code()) {
    // Nobody answered, there is no such device, or the program is not who it has to be.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return false;
    default:
      return true;
  }
}

TierOpening::TierOpening(Options options, Opener opener)
    : options_(std::move(options)), opener_(std::move(opener)) {}

absl::StatusOr<OpenedInTier> TierOpening::Open(SessionOptions session) const {
  switch (options_.choice) {
    case TierChoice::kIsolated:
      return OpenIsolated(std::move(session));
    case TierChoice::kGuarded:
      return OpenGuarded(std::move(session));
    case TierChoice::kAuto:
      return OpenEither(session);
  }
  return absl::InternalError("an unknown tier");
}

absl::StatusOr<OpenedInTier> TierOpening::OpenIsolated(SessionOptions session) const {
  session.tier = Tier::kIsolated;
  auto opened = opener_(session);
  if (!opened.ok()) return opened.status();
  return OpenedInTier{*std::move(opened), nullptr};
}

absl::StatusOr<OpenedInTier> TierOpening::OpenGuarded(SessionOptions session) const {
  session.tier = Tier::kGuarded;
  auto opened = opener_(session);
  if (!opened.ok()) return opened.status();
  return OpenedInTier{*std::move(opened), std::make_unique<TierWatch>()};
}

absl::StatusOr<OpenedInTier> TierOpening::OpenEither(const SessionOptions& session) const {
  const auto isolated = [&](const std::string& why) {
    LogInfo("--tier=auto chose the isolated tier: ", why);
    return OpenIsolated(session);
  };
  if (session.guard != GuardMode::kOff) {
    return isolated("kernels are guarded in another way (WARPLINE_GUARD)");
  }
  const std::string program = options_.program();
  const tier::TierRecord record(options_.cache_folder);
  tier::FileSurvey survey({.cache_folder = options_.cache_folder});
  const TierDecision decision = DecideTier(program, options_.files(), record, &survey);
  if (decision.tier == Tier::kIsolated) return isolated(decision.why);
  auto opened = OpenGuarded(session);
  if (!opened.ok()) {
    if (!MayOpenIsolated(opened.status())) return opened.status();
    return isolated(std::string(opened.status().message()));
  }
  // Only now is the device known.
  const std::string obstacle =
      ObstacleOnDevice(decision, ComputeCapability(opened->session->terms().device()));
  if (!obstacle.empty()) {
    opened->session->Close(kCloseDeadline);
    return isolated(obstacle);
  }
  opened->watch = std::make_unique<TierWatch>(record, program);
  return opened;
}

}  // namespace warpline::stub
