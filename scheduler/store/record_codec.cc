#include "scheduler/store/record_codec.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/devices.h"
#include "proto/tier.h"
#include "scheduler/slice_rules.h"
#include "scheduler/store/record_messages.pb.h"

namespace warpline::scheduler {
namespace {

absl::Status NoRecord(const char* kind, absl::string_view name) {
  return absl::DataLossError(absl::StrCat("the record of ", kind, " ", name, " is damaged"));
}

void FillSlice(const SliceShape& shape, warpline_state::Slice* to) {
  to->set_memory_bytes(shape.memory_bytes);
  to->set_staging_bytes(shape.staging_bytes);
  to->set_max_sessions(shape.max_sessions);
  to->set_max_handles(shape.max_handles);
  to->set_max_module_bytes(shape.max_module_bytes);
  to->set_max_commands(shape.max_commands);
  to->set_sm_percent(shape.sm_percent);
  to->set_launch_ms(shape.launch_ms);
  to->set_weight(shape.weight);
  to->set_copy_weight(shape.copy_weight);
  to->set_priority(shape.priority);
  to->set_period_ms(shape.period_ms);
  to->set_budget_ms(shape.budget_ms);
  to->set_best_effort(shape.best_effort);
  to->set_resident_bytes(shape.resident_bytes);
}

SliceShape ShapeOf(const warpline_state::Slice& from) {
  SliceShape shape;
  shape.memory_bytes = from.memory_bytes();
  shape.staging_bytes = from.staging_bytes();
  shape.max_sessions = from.max_sessions();
  shape.max_handles = from.max_handles();
  shape.max_module_bytes = from.max_module_bytes();
  shape.max_commands = from.max_commands();
  shape.sm_percent = from.sm_percent();
  shape.launch_ms = from.launch_ms();
  shape.weight = from.weight();
  shape.copy_weight = from.copy_weight();
  shape.priority = from.priority();
  shape.period_ms = from.period_ms();
  shape.budget_ms = from.budget_ms();
  shape.best_effort = from.best_effort();
  shape.resident_bytes = from.resident_bytes();
  return shape;
}

}  // namespace

std::string Encode(const TenantRecord& tenant) {
  warpline_state::Tenant to;
  to.set_credential_hash(tenant.credential_hash);
  to.set_memory_bytes(tenant.memory_bytes);
  to.set_max_leases(tenant.max_leases);
  to.set_max_lease_sessions(tenant.max_lease_sessions);
  to.set_max_seconds(tenant.max_seconds);
  to.set_max_sessions(tenant.max_sessions);
  to.set_rights(tenant.rights);
  to.set_tiers(tenant.tiers);
  to.set_tier(static_cast<uint32_t>(tenant.tier));
  to.set_weight(tenant.weight);
  to.set_copy_weight(tenant.copy_weight);
  to.set_priority(tenant.priority);
  for (const std::string& slice : tenant.slices) to.add_slices(slice);
  to.set_parent(tenant.parent);
  to.set_reserved_bytes(tenant.reserved_bytes);
  for (const std::string& name : tenant.namespaces) to.add_namespaces(name);
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, TenantRecord* tenant) {
  warpline_state::Tenant from;
  if (!from.ParseFromString(value) || from.tier() >= std::size(kTierChoices) ||
      from.weight() == 0 || from.copy_weight() == 0) {
    return NoRecord("tenant", name);
  }
  tenant->name = std::string(name);
  tenant->credential_hash = from.credential_hash();
  tenant->memory_bytes = from.memory_bytes();
  tenant->max_leases = from.max_leases();
  tenant->max_lease_sessions = from.max_lease_sessions();
  tenant->max_seconds = from.max_seconds();
  tenant->max_sessions = from.max_sessions();
  tenant->rights = from.rights();
  tenant->tiers = from.tiers();
  tenant->tier = static_cast<TierChoice>(from.tier());
  tenant->weight = from.weight();
  tenant->copy_weight = from.copy_weight();
  tenant->priority = from.priority();
  tenant->slices.assign(from.slices().begin(), from.slices().end());
  tenant->parent = from.parent();
  tenant->reserved_bytes = from.reserved_bytes();
  tenant->namespaces.assign(from.namespaces().begin(), from.namespaces().end());
  return absl::OkStatus();
}

std::string Encode(const SliceRecord& slice) {
  warpline_state::Slice to;
  FillSlice(slice.shape, &to);
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, SliceRecord* slice) {
  warpline_state::Slice from;
  if (!from.ParseFromString(value)) return NoRecord("slice", name);
  *slice = {std::string(name), ShapeOf(from)};
  return CheckSlice(*slice).ok() ? absl::OkStatus() : NoRecord("slice", name);
}

std::string Encode(const ServerRecord& server) {
  warpline_state::Server to;
  to.set_endpoint(server.endpoint);
  to.set_version(server.version);
  for (const DeviceRecord& device : server.devices) {
    auto* const added = to.add_devices();
    added->set_uuid(device.uuid);
    added->set_name(device.name);
    added->set_backend(device.backend);
    added->set_capacity_bytes(device.capacity_bytes);
  }
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, ServerRecord* server) {
  warpline_state::Server from;
  if (!from.ParseFromString(value)) return NoRecord("server", name);
  server->name = std::string(name);
  server->endpoint = from.endpoint();
  server->version = from.version();
  for (const auto& device : from.devices()) {
    server->devices.push_back(
        {device.uuid(), device.name(), device.backend(), device.capacity_bytes()});
  }
  return absl::OkStatus();
}

std::string Encode(const CredentialRecord& credential) {
  warpline_state::ServerCredential to;
  to.set_hash(credential.hash);
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value,
                    CredentialRecord* credential) {
  warpline_state::ServerCredential from;
  if (!from.ParseFromString(value) || from.hash().empty()) {
    return NoRecord("the credential of server", name);
  }
  *credential = {std::string(name), from.hash()};
  return absl::OkStatus();
}

std::string Encode(const CordonRecord& cordon) {
  warpline_state::Cordon to;
  to.set_reason(cordon.reason);
  to.set_drained_unix_ms(ToMs(cordon.drained));
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, CordonRecord* cordon) {
  warpline_state::Cordon from;
  if (!from.ParseFromString(value)) return NoRecord("the cordon of", name);
  *cordon = {std::string(name), from.reason()};
  if (from.drained_unix_ms() != 0) cordon->drained = absl::FromUnixMillis(from.drained_unix_ms());
  return absl::OkStatus();
}

std::string Encode(const AuditHead& head) {
  warpline_state::AuditHead to;
  to.set_head(head.head);
  to.set_lost(head.lost);
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, AuditHead* head) {
  warpline_state::AuditHead from;
  if (!from.ParseFromString(value)) return NoRecord("the audit of", name);
  *head = {std::string(name), from.head(), from.lost()};
  return absl::OkStatus();
}

namespace {

void Fill(const MovedLease& moved, warpline_state::MovedLease* to) {
  to->set_number(moved.number);
  to->set_from(moved.from);
  to->set_from_instance(moved.from_instance);
  to->set_at_unix_ms(absl::ToUnixMillis(moved.at));
  for (const auto& [there, here] : moved.sessions) {
    to->add_sessions_from(there);
    to->add_sessions_to(here);
  }
}

MovedLease MovedOf(const warpline_state::MovedLease& from) {
  MovedLease moved = {.number = from.number(),
                      .from = from.from(),
                      .from_instance = from.from_instance(),
                      .at = absl::FromUnixMillis(from.at_unix_ms())};
  for (int i = 0; i < from.sessions_from_size(); ++i) {
    moved.sessions.emplace_back(from.sessions_from(i), from.sessions_to(i));
  }
  return moved;
}

}  // namespace

std::string Encode(const LeaseRecord& lease) {
  warpline_state::Lease to;
  to.set_tenant(lease.tenant);
  to.set_server(lease.server);
  for (const std::string& device : lease.devices) to.add_devices(device);
  to.set_memory_bytes(lease.memory_bytes);
  to.set_max_sessions(lease.max_sessions);
  to.set_program(lease.program);
  to.set_pid(lease.pid);
  to.set_by_sessions(lease.by_sessions);
  to.set_state(static_cast<uint32_t>(lease.state));
  to.set_reason(lease.reason.text);
  to.set_cause(static_cast<uint32_t>(lease.reason.cause));
  to.set_created_unix_ms(absl::ToUnixMillis(lease.created));
  to.set_expires_unix_ms(ToMs(lease.expires));
  to.set_ends_unix_ms(ToMs(lease.ends));
  if (!lease.slice.name.empty()) {
    to.set_slice_name(lease.slice.name);
    FillSlice(lease.slice.shape, to.mutable_slice());
  }
  to.set_certificate(lease.holder.certificate);
  to.set_certificate_names(lease.holder.names);
  if (lease.moved.number != 0) Fill(lease.moved, to.mutable_moved());
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, LeaseRecord* lease) {
  warpline_state::Lease from;
  if (!from.ParseFromString(value) || from.devices().empty() ||
      from.devices_size() > static_cast<int>(kMaxSessionDevices) ||
      from.memory_bytes() >= (1ull << 50) ||
      from.state() > static_cast<uint32_t>(LeaseState::kReleased)) {
    return NoRecord("lease", name);
  }
  lease->id = std::string(name);
  lease->tenant = from.tenant();
  lease->server = from.server();
  lease->devices.assign(from.devices().begin(), from.devices().end());
  lease->memory_bytes = from.memory_bytes();
  lease->max_sessions = from.max_sessions();
  lease->program = from.program();
  lease->pid = from.pid();
  lease->by_sessions = from.by_sessions();
  lease->state = static_cast<LeaseState>(from.state());
  lease->reason = {from.reason(), EndCauseOf(from.cause())};
  lease->created = absl::FromUnixMillis(from.created_unix_ms());
  lease->expires = absl::FromUnixMillis(from.expires_unix_ms());
  if (from.ends_unix_ms() != 0) lease->ends = absl::FromUnixMillis(from.ends_unix_ms());
  lease->holder = {.certificate = from.certificate(), .names = from.certificate_names()};
  if (from.has_moved()) {
    if (from.moved().sessions_from_size() != from.moved().sessions_to_size()) {
      return NoRecord("lease", name);
    }
    lease->moved = MovedOf(from.moved());
  }
  if (from.slice_name().empty()) return absl::OkStatus();
  lease->slice = {from.slice_name(), ShapeOf(from.slice())};
  return CheckSlice(lease->slice).ok() ? absl::OkStatus() : NoRecord("lease", name);
}

std::string Encode(const LeaseEnd& end) {
  warpline_state::EndMark to;
  to.set_reason(end.reason.text);
  to.set_cause(static_cast<uint32_t>(end.reason.cause));
  to.set_forget_unix_ms(ToMs(end.forget));
  return to.SerializeAsString();
}

absl::Status Decode(absl::string_view name, const std::string& value, LeaseEnd* end) {
  warpline_state::EndMark from;
  if (!from.ParseFromString(value)) return NoRecord("the end of the leases of", name);
  *end = {{from.reason(), EndCauseOf(from.cause())}, absl::FromUnixMillis(from.forget_unix_ms())};
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
