#include "proto/refusal.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace warpline {

using warpline_internal::Refusal;

absl::Status WithRefusal(absl::Status status, const Refusal& refusal) {
  status.SetPayload(kRefusalPayload, absl::Cord(refusal.SerializeAsString()));
  return status;
}

absl::Status ArenaUnavailable(absl::string_view why) {
  Refusal refusal;
  refusal.set_reason(Refusal::ARENA_UNAVAILABLE);
  return WithRefusal(
      absl::AbortedError(absl::StrCat("the worker cannot have the client's arena: ", why)),
      refusal);
}

absl::Status ArenaTooLarge(uint64_t bytes, uint64_t most_bytes) {
  Refusal refusal;
  refusal.set_reason(Refusal::ARENA_TOO_LARGE);
  refusal.set_most_arena_bytes(most_bytes);
  return WithRefusal(absl::FailedPreconditionError(absl::StrCat(
                         "arena of ", bytes, " bytes: this server allows ", most_bytes)),
                     refusal);
}

absl::Status NoRoom(absl::string_view message) {
  Refusal refusal;
  refusal.set_reason(Refusal::NO_ROOM);
  return WithRefusal(absl::ResourceExhaustedError(message), refusal);
}

absl::Status TierRefused(absl::Status status) {
  Refusal refusal;
  refusal.set_reason(Refusal::TIER);
  return WithRefusal(std::move(status), refusal);
}

absl::Status NoServer(absl::string_view message) {
  Refusal refusal;
  refusal.set_reason(Refusal::NO_SERVER);
  return WithRefusal(absl::UnavailableError(message), refusal);
}

Refusal RefusalOf(const absl::Status& status) {
  Refusal refusal;
  const auto payload = status.GetPayload(kRefusalPayload);
  if (!payload.has_value() || payload->size() > kMaxRefusalBytes ||
      !refusal.ParseFromString(std::string(*payload))) {
    return Refusal();
  }
  return refusal;
}

}  // namespace warpline
