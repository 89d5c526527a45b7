#include "lease/token.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/serving/listen_address.h"
#include "proto/scheduler.pb.h"

namespace warpline {
namespace {

constexpr uint32_t kFormat = 1;
// The purpose is signed as well, so that a signature for something else is never one for a token.
constexpr char kPurpose[] = "warpline token 1:";

std::string Signed(absl::string_view body) { return absl::StrCat(kPurpose, body); }

int64_t ToMs(absl::Time time) {
  return time == absl::InfiniteFuture() ? 0 : absl::ToUnixMillis(time);
}

// Leaves a number at its default out of the message; zero stands for the default.
template <typename Number>
Number UnlessDefault(Number value, Number by_default) {
  return value == by_default ? 0 : value;
}
template <typename Number>
Number OrDefault(Number value, Number by_default) {
  return value == 0 ? by_default : value;
}

void FillSlice(const DeviceSlice& slice, warpline_internal::TokenSlice* to) {
  const DeviceSlice usual;
  to->set_max_handles(UnlessDefault(slice.max_handles, usual.max_handles));
  to->set_max_module_bytes(UnlessDefault(slice.max_module_bytes, usual.max_module_bytes));
  to->set_sm_percent(UnlessDefault(slice.sm_percent, usual.sm_percent));
  to->set_priority(slice.priority);
  to->set_weight(UnlessDefault(slice.weight, usual.weight));
  to->set_copy_weight(UnlessDefault(slice.copy_weight, usual.copy_weight));
  if (slice.launch_time_limit != absl::InfiniteDuration()) {
    to->set_launch_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(slice.launch_time_limit)));
  }
  to->set_hardware_queues(slice.hardware_queues);
  to->set_max_commands(slice.max_commands);
  to->set_staging_bytes(slice.staging_bytes);
  to->set_period_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(slice.period)));
  to->set_budget_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(slice.budget)));
  to->set_best_effort(slice.best_effort);
  to->set_resident_bytes(slice.resident_bytes);
  to->set_tenants_weight(slice.tenants_weight);
  to->set_tenants_copy_weight(slice.tenants_copy_weight);
}

DeviceSlice SliceOf(uint64_t memory_bytes, const warpline_internal::TokenSlice& from) {
  DeviceSlice slice;
  slice.memory_bytes = memory_bytes;
  slice.max_handles = OrDefault(from.max_handles(), slice.max_handles);
  slice.max_module_bytes = OrDefault(from.max_module_bytes(), slice.max_module_bytes);
  slice.sm_percent = OrDefault(from.sm_percent(), slice.sm_percent);
  slice.priority = from.priority();
  slice.weight = OrDefault(from.weight(), slice.weight);
  slice.copy_weight = OrDefault(from.copy_weight(), slice.copy_weight);
  if (from.launch_ms() != 0) slice.launch_time_limit = absl::Milliseconds(from.launch_ms());
  slice.hardware_queues = from.hardware_queues();
  slice.max_commands = from.max_commands();
  slice.staging_bytes = from.staging_bytes();
  // A budget that is none, or more than there is, is no reservation: it would be everything.
  if (from.budget_ms() < from.period_ms() && from.period_ms() <= kMostPeriodMs) {
    slice.period = absl::Milliseconds(from.period_ms());
    slice.budget = absl::Milliseconds(from.budget_ms());
  }
  slice.best_effort = from.best_effort();
  slice.resident_bytes = from.resident_bytes();
  slice.tenants_weight = from.tenants_weight();
  slice.tenants_copy_weight = from.tenants_copy_weight();
  return slice;
}

}  // namespace

absl::StatusOr<std::string> SignToken(const SigningKey& key, const LeaseToken& token) {
  warpline_internal::TokenBody body;
  body.set_format(kFormat);
  body.set_key(key.verify_key().id);
  body.set_lease(token.lease);
  body.set_tenant(token.tenant);
  body.set_server(token.server);
  body.set_device(FormatDeviceNames(token.devices));
  body.set_memory_bytes(token.slice.memory_bytes);
  FillSlice(token.slice, body.mutable_slice());
  body.set_max_sessions(token.max_sessions);
  body.set_rights(token.rights);
  body.set_tiers(UnlessDefault(token.tiers, kAllTiers));
  body.set_expires_unix_ms(absl::ToUnixMillis(token.expires));
  body.set_ends_unix_ms(ToMs(token.ends));
  body.set_epoch(token.epoch);
  body.set_moved_from(token.moved_from);
  body.set_move(token.move);
  body.set_certificate(token.holder.certificate);
  body.set_certificate_names(token.holder.names);
  const std::string bytes = body.SerializeAsString();
  const auto signature = key.Sign(Signed(bytes));
  if (!signature.ok()) return signature.status();
  return absl::StrCat(absl::WebSafeBase64Escape(bytes), ".", absl::WebSafeBase64Escape(*signature));
}

absl::StatusOr<LeaseToken> OpenToken(absl::string_view text, const std::vector<VerifyKey>& keys) {
  const absl::Status malformed = absl::UnauthenticatedError("the token is malformed");
  if (text.size() > kMaxTokenText) return malformed;
  const size_t dot = text.find('.');
  std::string bytes;
  std::string signature;
  if (dot == absl::string_view::npos || !absl::WebSafeBase64Unescape(text.substr(0, dot), &bytes) ||
      !absl::WebSafeBase64Unescape(text.substr(dot + 1), &signature)) {
    return malformed;
  }
  warpline_internal::TokenBody body;
  if (!body.ParseFromString(bytes) || body.format() != kFormat) return malformed;
  const VerifyKey* key = nullptr;
  for (const VerifyKey& known : keys) {
    if (known.id == body.key()) key = &known;
  }
  if (key == nullptr) return absl::UnauthenticatedError("the token is signed by an unknown key");
  if (!VerifySignature(*key, Signed(bytes), signature)) {
    return absl::UnauthenticatedError("the token's signature is wrong");
  }
  LeaseToken token;
  token.lease = body.lease();
  token.tenant = body.tenant();
  token.server = body.server();
  token.devices = ParseDeviceNames(body.device());
  token.slice = SliceOf(body.memory_bytes(), body.slice());
  token.max_sessions = body.max_sessions();
  token.rights = body.rights();
  token.tiers = OrDefault<TierSet>(body.tiers(), kAllTiers);
  token.epoch = body.epoch();
  token.moved_from = body.moved_from();
  token.move = body.move();
  token.expires = absl::FromUnixMillis(body.expires_unix_ms());
  token.holder = {.certificate = body.certificate(), .names = body.certificate_names()};
  if (body.ends_unix_ms() != 0) token.ends = absl::FromUnixMillis(body.ends_unix_ms());
  return token;
}

CertificateHolder HolderOf(absl::string_view peer) {
  const std::string_view text(peer.data(), peer.size());
  return {.certificate = std::string(PeerCertificate(text)), .names = std::string(PeerNames(text))};
}

absl::Status CheckHolder(const LeaseToken& token, const CertificateHolder& holder) {
  if (token.holder.certificate.empty() || holder.certificate.empty() ||
      token.holder.certificate == holder.certificate) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError("the token is for another client certificate than this one");
}

absl::Status RenewHolder(const CertificateHolder& holder, LeaseToken* token) {
  const absl::Status same = CheckHolder(*token, holder);
  const bool follows = !holder.names.empty() && holder.names == token->holder.names;
  if (!same.ok() && !follows) return same;
  if (!holder.certificate.empty()) token->holder = holder;
  return absl::OkStatus();
}

namespace {

absl::Status CheckTerms(const LeaseToken& token, absl::string_view server, absl::Time now) {
  if (token.server != server) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token is for server ", token.server, ", this is ", server));
  }
  if ((token.rights & ~kKnownRights) != 0) {
    return absl::UnauthenticatedError(
        "the token limits rights in a way that this server does not know");
  }
  if (now >= token.expires || now >= token.ends) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token of lease ", token.lease, " has expired"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckToken(const LeaseToken& token, absl::string_view server, absl::Time now) {
  if (!token.moved_from.empty()) {
    return absl::UnauthenticatedError("the token moves a lease, and opens no session");
  }
  return CheckTerms(token, server, now);
}

absl::Status CheckTicket(const LeaseToken& token, absl::string_view server, absl::Time now) {
  if (token.moved_from.empty()) {
    return absl::UnauthenticatedError("the token opens sessions, and moves no lease");
  }
  return CheckTerms(token, server, now);
}

}  // namespace warpline
