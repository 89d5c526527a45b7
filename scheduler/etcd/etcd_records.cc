#include "scheduler/etcd/etcd_records.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/devices.h"
#include "proto/tier.h"
#include "scheduler/etcd/etcd_records.pb.h"
#include "scheduler/slice_rules.h"

namespace warpline::scheduler {
namespace {

absl::Status NoRecord(const char* kind, absl::string_view name) {
  return absl::DataLossError(absl::StrCat("the record of ", kind, " ", name, " is damaged"));
}

void FillSlice(const SliceShape& shape, warpline_etcd::Slice* to) {
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
}

SliceShape ShapeOf(const warpline_etcd::Slice& from) {
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
  return shape;
}

}  // namespace

int64_t FormatFor(const SliceShape& shape) {
  return shape.period_ms == 0 ? kSlicesEtcdFormat : kReservationsEtcdFormat;
}

std::string EncodeTenant(const TenantRecord& tenant) {
  warpline_etcd::Tenant to;
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

absl::StatusOr<TenantRecord> DecodeTenant(absl::string_view name, const std::string& value) {
  warpline_etcd::Tenant from;
  if (!from.ParseFromString(value) || from.tier() >= std::size(kTierChoices)) {
    return NoRecord("tenant", name);
  }
  TenantRecord tenant;
  tenant.name = std::string(name);
  tenant.credential_hash = from.credential_hash();
  tenant.memory_bytes = from.memory_bytes();
  tenant.max_leases = from.max_leases();
  tenant.max_lease_sessions = from.max_lease_sessions();
  tenant.max_seconds = from.max_seconds();
  tenant.max_sessions = from.max_sessions();
  tenant.rights = from.rights();
  tenant.tiers = from.tiers();
  tenant.tier = static_cast<TierChoice>(from.tier());
  tenant.weight = std::max(1u, from.weight());
  tenant.copy_weight = std::max(1u, from.copy_weight());
  tenant.priority = from.priority();
  tenant.slices.assign(from.slices().begin(), from.slices().end());
  tenant.parent = from.parent();
  tenant.reserved_bytes = from.reserved_bytes();
  tenant.namespaces.assign(from.namespaces().begin(), from.namespaces().end());
  return tenant;
}

std::string EncodeSlice(const SliceRecord& slice) {
  warpline_etcd::Slice to;
  FillSlice(slice.shape, &to);
  return to.SerializeAsString();
}

absl::StatusOr<SliceRecord> DecodeSlice(absl::string_view name, const std::string& value) {
  warpline_etcd::Slice from;
  if (!from.ParseFromString(value)) return NoRecord("slice", name);
  SliceRecord slice = {std::string(name), ShapeOf(from)};
  if (!CheckSlice(slice).ok()) return NoRecord("slice", name);
  return slice;
}

std::string EncodeServer(const ServerRecord& server) {
  warpline_etcd::Server to;
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

absl::StatusOr<ServerRecord> DecodeServer(absl::string_view name, const std::string& value) {
  warpline_etcd::Server from;
  if (!from.ParseFromString(value)) return NoRecord("server", name);
  ServerRecord server;
  server.name = std::string(name);
  server.endpoint = from.endpoint();
  server.version = from.version();
  for (const auto& device : from.devices()) {
    server.devices.push_back(
        {device.uuid(), device.name(), device.backend(), device.capacity_bytes()});
  }
  return server;
}

std::string EncodeCredential(const std::string& hash) {
  warpline_etcd::ServerCredential to;
  to.set_hash(hash);
  return to.SerializeAsString();
}

absl::StatusOr<std::string> DecodeCredential(const std::string& value) {
  warpline_etcd::ServerCredential from;
  if (!from.ParseFromString(value) || from.hash().empty()) {
    return absl::DataLossError("a server's credential is damaged");
  }
  return from.hash();
}

std::string EncodeCordon(const CordonRecord& cordon) {
  warpline_etcd::Cordon to;
  to.set_reason(cordon.reason);
  to.set_drained_unix_ms(ToMs(cordon.drained));
  return to.SerializeAsString();
}

absl::StatusOr<CordonRecord> DecodeCordon(absl::string_view server, const std::string& value) {
  warpline_etcd::Cordon from;
  if (!from.ParseFromString(value)) return NoRecord("the cordon of", server);
  CordonRecord cordon{std::string(server), from.reason()};
  if (from.drained_unix_ms() != 0) cordon.drained = absl::FromUnixMillis(from.drained_unix_ms());
  return cordon;
}

std::string EncodeAuditHead(const AuditHead& head) {
  warpline_etcd::AuditHead to;
  to.set_head(head.head);
  to.set_lost(head.lost);
  return to.SerializeAsString();
}

absl::StatusOr<AuditHead> DecodeAuditHead(absl::string_view server, const std::string& value) {
  warpline_etcd::AuditHead from;
  if (!from.ParseFromString(value)) return NoRecord("the audit of", server);
  return AuditHead{std::string(server), from.head(), from.lost()};
}

std::string EncodeLease(const LeaseRecord& lease) {
  warpline_etcd::Lease to;
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
  return to.SerializeAsString();
}

absl::StatusOr<LeaseRecord> DecodeLease(absl::string_view id, const std::string& value) {
  warpline_etcd::Lease from;
  if (!from.ParseFromString(value) || from.devices().empty() ||
      from.devices_size() > static_cast<int>(kMaxSessionDevices) ||
      from.memory_bytes() >= (1ull << 50) ||
      from.state() > static_cast<uint32_t>(LeaseState::kReleased)) {
    return NoRecord("lease", id);
  }
  LeaseRecord lease;
  lease.id = std::string(id);
  lease.tenant = from.tenant();
  lease.server = from.server();
  lease.devices.assign(from.devices().begin(), from.devices().end());
  lease.memory_bytes = from.memory_bytes();
  lease.max_sessions = from.max_sessions();
  lease.program = from.program();
  lease.pid = from.pid();
  lease.by_sessions = from.by_sessions();
  lease.state = static_cast<LeaseState>(from.state());
  lease.reason = {from.reason(), EndCauseOf(from.cause())};
  lease.created = absl::FromUnixMillis(from.created_unix_ms());
  lease.expires = absl::FromUnixMillis(from.expires_unix_ms());
  if (from.ends_unix_ms() != 0) lease.ends = absl::FromUnixMillis(from.ends_unix_ms());
  if (from.slice_name().empty()) return lease;
  lease.slice = {from.slice_name(), ShapeOf(from.slice())};
  if (!CheckSlice(lease.slice).ok()) return NoRecord("lease", id);
  return lease;
}

std::string EncodeEnd(const LeaseEnd& end) {
  warpline_etcd::EndMark to;
  to.set_reason(end.reason.text);
  to.set_cause(static_cast<uint32_t>(end.reason.cause));
  to.set_forget_unix_ms(ToMs(end.forget));
  return to.SerializeAsString();
}

absl::StatusOr<LeaseEnd> DecodeEnd(const std::string& value) {
  warpline_etcd::EndMark from;
  if (!from.ParseFromString(value)) return absl::DataLossError("a mark of ended leases is damaged");
  return LeaseEnd{{from.reason(), EndCauseOf(from.cause())},
                  absl::FromUnixMillis(from.forget_unix_ms())};
}

}  // namespace warpline::scheduler
