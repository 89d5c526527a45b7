#include "tools/cli/operator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lease/entitlement.h"
#include "lease/rights.h"
#include "proto/leases.pb.h"
#include "proto/tier.h"
#include "tools/cli/asker.h"
#include "tools/cli/lease.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::LeaseList;
using warpline_internal::Nothing;
using warpline_internal::Operator;
using warpline_internal::ServerList;
using warpline_internal::ServerReply;
using warpline_internal::ServerRequest;
using warpline_internal::SliceList;
using warpline_internal::SliceRequest;
using warpline_internal::TenantList;
using warpline_internal::TenantReply;
using warpline_internal::TenantRequest;

constexpr absl::Duration kDrainWithin = absl::Minutes(10);

constexpr char kFromFollower[] =
    "(from a scheduler that does not lead: it does not know sessions, nor which servers are up)\n";

template <typename List>
absl::StatusOr<std::string> Show(Asker* asker, const char* method, const Operator& request,
                                 bool json, std::string (*report)(List)) {
  const auto list = asker->AskForList<List>(method, request);
  if (!list.ok()) return list.status();
  if (json) return ToJson(*list);
  return absl::StrCat(report(*list), list->from_follower() ? kFromFollower : "");
}

std::string Limit(uint64_t value, const std::string& shown) { return value == 0 ? "-" : shown; }

absl::StatusOr<std::string> PutTenant(const CommandLine& line, const std::string& credential,
                                      Asker* asker) {
  TenantRequest request;
  request.set_credential(credential);
  request.set_name(line.rest[0]);
  if (line.Has("memory")) request.set_memory_bytes(line.Size("memory"));
  if (line.Has("max_leases")) {
    request.set_max_leases(static_cast<uint32_t>(line.Number("max_leases")));
  }
  if (line.Has("max_sessions")) {
    request.set_max_sessions(static_cast<uint32_t>(line.Number("max_sessions")));
  }
  if (line.Has("max_lease_sessions")) {
    request.set_max_lease_sessions(static_cast<uint32_t>(line.Number("max_lease_sessions")));
  }
  // Rights and tiers were checked where the command line was parsed.
  if (line.Has("rights")) request.set_rights(ParseRights(line.Text("rights")).value_or(0));
  if (line.Has("tiers")) request.set_tiers(ParseTierSet(line.Text("tiers")).value_or(0));
  if (line.Has("tier")) {
    const auto tier = ParseTierChoice(line.Text("tier")).value_or(TierChoice::kIsolated);
    request.set_tier(static_cast<uint32_t>(tier));
  }
  if (line.Has("weight")) request.set_weight(static_cast<uint32_t>(line.Number("weight")));
  if (line.Has("copy_weight")) {
    request.set_copy_weight(static_cast<uint32_t>(line.Number("copy_weight")));
  }
  if (line.Has("priority")) request.set_priority(static_cast<uint32_t>(line.Number("priority")));
  if (line.Has("parent")) request.set_parent(line.Text("parent"));
  if (line.Has("reserved")) request.set_reserved_bytes(line.Size("reserved"));
  if (line.Has("max_seconds")) request.set_max_seconds(line.Number("max_seconds"));
  if (line.Has("slices")) {
    warpline_internal::SliceNames* const slices = request.mutable_slices();
    const std::string list = line.Text("slices");
    for (const std::string& name : ParseDeviceNames(list == "none" ? "" : list)) {
      slices->add_names(name);
    }
  }
  if (line.Has("namespaces")) {
    warpline_internal::NamespaceNames* const namespaces = request.mutable_namespaces();
    const std::string list = line.Text("namespaces");
    for (const std::string& name : ParseDeviceNames(list == "none" ? "" : list)) {
      namespaces->add_names(name);
    }
  }
  request.set_create(line.action == "add");
  request.set_new_credential(line.Has("new_credential"));
  const auto reply = asker->Ask<TenantReply>("PutTenant", request);
  if (!reply.ok()) return reply.status();
  // The credential stands alone on its line, so that it can be redirected into a file.
  return reply->credential().empty() ? std::string()
                                     : absl::StrCat(Shown(reply->credential()), "\n");
}

absl::StatusOr<std::string> CordonServer(const CommandLine& line, const std::string& credential,
                                         Asker* asker) {
  warpline_internal::CordonRequest request;
  request.set_credential(credential);
  request.set_name(line.rest[0]);
  request.set_cordoned(line.action != "uncordon");
  request.set_reason(line.Text("reason"));
  if (line.action == "drain") {
    const absl::Duration within = line.Duration("within", kDrainWithin);
    if (within > absl::Hours(24 * 30)) {
      return absl::InvalidArgumentError("a server is drained within 30 days");
    }
    request.set_drained_in_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(within)));
  }
  const auto done = asker->Ask<Nothing>("CordonServer", request);
  return done.ok() ? absl::StatusOr<std::string>("") : done.status();
}

absl::StatusOr<std::string> ChangeServer(const CommandLine& line, const std::string& credential,
                                         Asker* asker) {
  ServerRequest request;
  request.set_credential(credential);
  request.set_name(line.rest[0]);
  request.set_create(line.action == "add");
  if (line.action == "remove") {
    const auto done = asker->Ask<Nothing>("RemoveServer", request);
    return done.ok() ? absl::StatusOr<std::string>("") : done.status();
  }
  const auto reply = asker->Ask<ServerReply>("PutServer", request);
  if (!reply.ok()) return reply.status();
  return absl::StrCat(Shown(reply->credential()), "\n");
}

absl::StatusOr<std::string> ChangeSlice(const CommandLine& line, const std::string& credential,
                                        Asker* asker) {
  SliceRequest request;
  request.set_credential(credential);
  request.set_name(line.rest[0]);
  request.set_create(line.action == "add");
  const auto number = [&](const char* option) {
    return static_cast<uint32_t>(line.Number(option));
  };
  if (line.Has("memory")) request.set_memory_bytes(line.Size("memory"));
  if (line.Has("resident")) request.set_resident_bytes(line.Size("resident"));
  if (line.Has("staging")) request.set_staging_bytes(line.Size("staging"));
  if (line.Has("sessions")) request.set_max_sessions(number("sessions"));
  if (line.Has("handles")) request.set_max_handles(number("handles"));
  if (line.Has("module_bytes")) request.set_max_module_bytes(line.Size("module_bytes"));
  if (line.Has("commands")) request.set_max_commands(number("commands"));
  if (line.Has("sm_percent")) request.set_sm_percent(number("sm_percent"));
  if (line.Has("launch_ms")) request.set_launch_ms(number("launch_ms"));
  if (line.Has("weight")) request.set_weight(number("weight"));
  if (line.Has("copy_weight")) request.set_copy_weight(number("copy_weight"));
  if (line.Has("priority")) request.set_priority(number("priority"));
  if (line.Has("period_ms")) request.set_period_ms(number("period_ms"));
  if (line.Has("budget_ms")) request.set_budget_ms(number("budget_ms"));
  if (line.Has("best_effort")) request.set_best_effort(number("best_effort") != 0);
  const bool removes = line.action == "remove";
  const auto done = asker->Ask<Nothing>(removes ? "RemoveSlice" : "PutSlice", request);
  return done.ok() ? absl::StatusOr<std::string>("") : done.status();
}

}  // namespace

absl::StatusOr<std::string> Operate(const CommandLine& line, const std::string& endpoint) {
  const auto credential = OperatorCredential();
  if (!credential.ok()) return credential.status();
  Asker asker(endpoint);
  Operator reader;
  reader.set_credential(*credential);
  const auto show = [&](const char* method, auto report) {
    return Show(&asker, method, reader, line.Has("json"), report);
  };
  if (line.verb == Verb::kServers) {
    if (line.action == "list") return show("Servers", &ServersReport);
    const bool cordons =
        line.action == "cordon" || line.action == "uncordon" || line.action == "drain";
    if (cordons) return CordonServer(line, *credential, &asker);
    return ChangeServer(line, *credential, &asker);
  }
  if (line.verb == Verb::kSlice) {
    if (line.action == "list") return show("Slices", &SlicesReport);
    return ChangeSlice(line, *credential, &asker);
  }
  if (line.verb == Verb::kLease) {
    if (line.action == "list") return show("Leases", &LeasesReport);
    warpline_internal::RevokeRequest request;
    request.set_credential(*credential);
    if (!line.rest.empty()) request.set_lease(line.rest[0]);
    request.set_tenant(line.Text("tenant"));
    request.set_reason(line.Text("reason"));
    const auto done = asker.Ask<Nothing>("Revoke", request);
    return done.ok() ? absl::StatusOr<std::string>("") : done.status();
  }
  if (line.action == "list") return show("Tenants", &TenantsReport);
  if (line.action != "remove") return PutTenant(line, *credential, &asker);
  TenantRequest request;
  request.set_credential(*credential);
  request.set_name(line.rest[0]);
  const auto done = asker.Ask<Nothing>("RemoveTenant", request);
  return done.ok() ? absl::StatusOr<std::string>("") : done.status();
}

absl::StatusOr<warpline_internal::Server> FindServer(const std::string& endpoint,
                                                     const std::string& name) {
  const auto credential = OperatorCredential();
  if (!credential.ok()) return credential.status();
  Operator reader;
  reader.set_credential(*credential);
  const auto list = Asker(endpoint).AskForList<ServerList>("Servers", reader);
  if (!list.ok()) return list.status();
  for (const auto& server : list->servers()) {
    if (server.name() == name) return server;
  }
  return absl::NotFoundError(absl::StrCat("the scheduler knows no server ", name));
}

std::string ServersReport(ServerList list) {
  MakeShown(&list);
  Table table({{"SERVER"},
               {"STATE"},
               {"DEVICES", true},
               {"LEASES", true},
               {"SESSIONS", true},
               {"LEASED", true},
               {"CAPACITY", true},
               {"CREDENTIAL"},
               {"VERSION"},
               {"ENDPOINT"},
               {"AUDIT", false, true}});
  for (const auto& server : list.servers()) {
    uint64_t capacity = 0;
    for (const auto& device : server.devices()) capacity += device.capacity_bytes();
    std::string state = server.state();
    if (state == "lost") absl::StrAppend(&state, " ", ShownAge(server.heard_seconds_ago()));
    if (server.cordoned() && state != "cordoned" && state != "draining") state += " cordoned";
    if (server.drained_in_seconds() > 0) {
      absl::StrAppend(&state, " ", ShownAge(server.drained_in_seconds()));
    }
    if (!server.cordon_reason().empty()) {
      absl::StrAppend(&state, " (", server.cordon_reason(), ")");
    }
    table.Add({server.name(), state, absl::StrCat(server.devices_size()),
               absl::StrCat(server.leases()), absl::StrCat(server.sessions()),
               ShownBytes(server.leased_bytes()), ShownBytes(capacity),
               server.has_credential() ? "own" : "none", server.version(), server.endpoint(),
               server.audit_lost().empty()
                   ? server.audit_head()
                   : absl::StrCat(server.audit_head(), " LOST ", server.audit_lost())});
  }
  return table.Text();
}

std::string LeasesReport(LeaseList list) {
  MakeShown(&list);
  Table table({{"LEASE"},
               {"TENANT"},
               {"STATE"},
               {"HOLDER"},
               {"SESSIONS", true},
               {"MEMORY", true},
               {"AGE", true},
               {"LEFT", true},
               {"SERVER"},
               {"SLICE", false, true},
               {"PROGRAM"},
               {"DEVICES"},
               {"WHY", false, true}});
  for (const auto& lease : list.leases()) {
    table.Add({lease.id(), lease.tenant(), lease.state(), lease.holder(),
               absl::StrCat(lease.sessions(), "/", lease.max_sessions()),
               ShownBytes(lease.memory_bytes()), ShownAge(lease.age_seconds()),
               ShownAge(lease.expires_in_seconds()), lease.server(), lease.slice(), lease.program(),
               lease.device(), lease.reason()});
  }
  return table.Text();
}

std::string SlicesReport(SliceList list) {
  MakeShown(&list);
  Table table({{"SLICE"},
               {"MEMORY", true},
               {"RESIDENT", true},
               {"STAGING", true},
               {"SESSIONS", true},
               {"HANDLES", true},
               {"MODULE_BYTES", true},
               {"COMMANDS", true},
               {"SM_PERCENT", true},
               {"LAUNCH_MS", true},
               {"WEIGHT", true},
               {"COPY_WEIGHT", true},
               {"PRIORITY", true},
               {"PERIOD_MS", true},
               {"BUDGET_MS", true},
               {"BEST_EFFORT"},
               {"LEASES", true}});
  const auto bytes = [](uint64_t value) { return Limit(value, ShownBytes(value)); };
  const auto number = [](uint64_t value) { return Limit(value, absl::StrCat(value)); };
  for (const auto& slice : list.slices()) {
    table.Add({slice.name(), bytes(slice.memory_bytes()), bytes(slice.resident_bytes()),
               bytes(slice.staging_bytes()), number(slice.max_sessions()),
               number(slice.max_handles()), bytes(slice.max_module_bytes()),
               number(slice.max_commands()), number(slice.sm_percent()), number(slice.launch_ms()),
               number(slice.weight()), number(slice.copy_weight()), number(slice.priority()),
               number(slice.period_ms()), number(slice.budget_ms()),
               slice.best_effort() ? "yes" : "-", absl::StrCat(slice.leases())});
  }
  return table.Text();
}

std::string TenantsReport(TenantList list) {
  MakeShown(&list);
  Table table({{"TENANT"},
               {"LEASED", true},
               {"MAX_MEMORY", true},
               {"LEASES", true},
               {"MAX_LEASES", true},
               {"SESSIONS", true},
               {"MAX_SESSIONS", true},
               {"MAX_LEASE_SESSIONS", true},
               {"MAX_SECONDS", true},
               {"WEIGHT", true},
               {"PARENT"},
               {"RESERVED", true},
               {"WAITING", true},
               {"RIGHTS"},
               {"TIERS"},
               {"TIER"},
               {"NAMESPACES"},
               {"SLICES", false, true}});
  for (const auto& tenant : list.tenants()) {
    table.Add({tenant.name(), ShownBytes(tenant.leased_bytes()),
               Limit(tenant.memory_bytes(), ShownBytes(tenant.memory_bytes())),
               absl::StrCat(tenant.leases()),
               Limit(tenant.max_leases(), absl::StrCat(tenant.max_leases())),
               absl::StrCat(tenant.sessions()),
               Limit(tenant.max_sessions(), absl::StrCat(tenant.max_sessions())),
               absl::StrCat(tenant.max_lease_sessions()),
               Limit(tenant.max_seconds(), absl::StrCat(tenant.max_seconds())),
               absl::StrCat(tenant.weight(), "/", tenant.copy_weight()),
               tenant.parent().empty() ? "-" : tenant.parent(),
               Limit(tenant.reserved_bytes(), ShownBytes(tenant.reserved_bytes())),
               absl::StrCat(tenant.waiting()), FormatRights(tenant.rights()),
               FormatTierSet(tenant.tiers()),
               tenant.tier() < std::size(kTierChoices) ? std::string(kTierChoices[tenant.tier()])
                                                       : absl::StrCat(tenant.tier()),
               tenant.namespaces().empty() ? "-" : absl::StrJoin(tenant.namespaces(), ","),
               absl::StrJoin(tenant.slices(), ",")});
  }
  return table.Text();
}

}  // namespace warpline::cli
