#include "tools/cli/operator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lease/rights.h"
#include "tools/cli/lease.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::LeaseList;
using warpline_internal::Nothing;
using warpline_internal::Operator;
using warpline_internal::ServerList;
using warpline_internal::ServerReply;
using warpline_internal::ServerRequest;
using warpline_internal::TenantList;
using warpline_internal::TenantReply;
using warpline_internal::TenantRequest;

constexpr absl::Duration kTimeout = absl::Seconds(5);

class Asker {
 public:
  Asker(const std::string& endpoint, bool json) : client_(TargetOf(endpoint)), json_(json) {}

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(const char* method, const Request& request) {
    auto reply = CallUnary<Reply>(&client_, absl::StrCat("/warpline_internal.Scheduler/", method),
                                  request, kTimeout);
    if (reply.ok()) return reply;
    const auto code = reply.status().code();
    if (code == absl::StatusCode::kUnimplemented) {
      return absl::UnimplementedError(
          absl::StrCat("what answers at ", client_.address(), " is no scheduler"));
    }
    if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
      return absl::UnavailableError(
          absl::StrCat("no answer from ", client_.address(), ": ", reply.status().message()));
    }
    return reply;
  }

  template <typename List>
  absl::StatusOr<std::string> Show(const char* method, const Operator& request,
                                   std::string (*report)(const List&)) {
    const auto list = Ask<List>(method, request);
    if (!list.ok()) return list.status();
    return json_ ? ToJson(*list) : report(*list);
  }

 private:
  UnaryClient client_;
  const bool json_;
};

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
  // Checked where the command line was parsed.
  if (line.Has("rights")) request.set_rights(ParseRights(line.Text("rights")).value_or(0));
  if (line.Has("max_seconds")) request.set_max_seconds(line.Number("max_seconds"));
  request.set_create(line.action == "add");
  request.set_new_credential(line.Has("new_credential"));
  const auto reply = asker->Ask<TenantReply>("PutTenant", request);
  if (!reply.ok()) return reply.status();
  // Alone on its line, so that it can go into a file.
  return reply->credential().empty() ? std::string() : absl::StrCat(reply->credential(), "\n");
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
  return absl::StrCat(reply->credential(), "\n");
}

}  // namespace

absl::StatusOr<std::string> Operate(const CommandLine& line, const std::string& endpoint) {
  const auto credential = OperatorCredential();
  if (!credential.ok()) return credential.status();
  Asker asker(endpoint, line.Has("json"));
  Operator reader;
  reader.set_credential(*credential);
  if (line.verb == Verb::kServers) {
    if (line.action == "list") return asker.Show("Servers", reader, &ServersReport);
    return ChangeServer(line, *credential, &asker);
  }
  if (line.verb == Verb::kLease) {
    if (line.action == "list") return asker.Show("Leases", reader, &LeasesReport);
    warpline_internal::RevokeRequest request;
    request.set_credential(*credential);
    request.set_lease(line.rest[0]);
    request.set_reason(line.Text("reason"));
    const auto done = asker.Ask<Nothing>("Revoke", request);
    return done.ok() ? absl::StatusOr<std::string>("") : done.status();
  }
  if (line.action == "list") return asker.Show("Tenants", reader, &TenantsReport);
  if (line.action != "remove") return PutTenant(line, *credential, &asker);
  TenantRequest request;
  request.set_credential(*credential);
  request.set_name(line.rest[0]);
  const auto done = asker.Ask<Nothing>("RemoveTenant", request);
  return done.ok() ? absl::StatusOr<std::string>("") : done.status();
}

std::string ServersReport(const ServerList& list) {
  std::string out =
      absl::StrFormat("%-24s %-9s %7s %7s %8s %12s %12s  %s\n", "SERVER", "STATE", "DEVICES",
                      "LEASES", "SESSIONS", "LEASED", "CAPACITY", "ENDPOINT");
  for (const auto& server : list.servers()) {
    uint64_t capacity = 0;
    for (const auto& device : server.devices()) capacity += device.capacity_bytes();
    const std::string state = server.state() == "lost"
                                  ? absl::StrFormat("lost %.0fs", server.heard_seconds_ago())
                                  : server.state();
    absl::StrAppendFormat(&out, "%-24s %-9s %7d %7d %8d %12s %12s  %s\n", Shown(server.name()),
                          state, server.devices_size(), server.leases(), server.sessions(),
                          ShownBytes(server.leased_bytes()), ShownBytes(capacity),
                          Shown(server.endpoint()));
  }
  return out;
}

std::string LeasesReport(const LeaseList& list) {
  std::string out = absl::StrFormat("%-16s %-12s %-9s %-9s %8s %12s %8s %8s  %-24s %s\n", "LEASE",
                                    "TENANT", "STATE", "HOLDER", "SESSIONS", "MEMORY", "AGE_S",
                                    "LEFT_S", "SERVER", "PROGRAM");
  for (const auto& lease : list.leases()) {
    absl::StrAppendFormat(
        &out, "%-16s %-12s %-9s %-9s %8d %12s %8.0f %8.0f  %-24s %s%s\n", Shown(lease.id()),
        Shown(lease.tenant()), lease.state(), lease.holder(), lease.sessions(),
        ShownBytes(lease.memory_bytes()), lease.age_seconds(), lease.expires_in_seconds(),
        Shown(lease.server()), Shown(lease.program()),
        lease.reason().empty() ? "" : absl::StrCat(" (", Shown(lease.reason()), ")"));
  }
  return out;
}

std::string TenantsReport(const TenantList& list) {
  std::string out = absl::StrFormat("%-24s %12s %12s %7s %10s %8s %12s %13s %11s  %s\n", "TENANT",
                                    "LEASED", "MAX_MEMORY", "LEASES", "MAX_LEASES", "SESSIONS",
                                    "MAX_SESSIONS", "MAX_OF_LEASE", "MAX_SECONDS", "RIGHTS");
  for (const auto& tenant : list.tenants()) {
    absl::StrAppendFormat(
        &out, "%-24s %12s %12s %7d %10s %8d %12s %13d %11s  %s\n", Shown(tenant.name()),
        ShownBytes(tenant.leased_bytes()),
        Limit(tenant.memory_bytes(), ShownBytes(tenant.memory_bytes())), tenant.leases(),
        Limit(tenant.max_leases(), absl::StrCat(tenant.max_leases())), tenant.sessions(),
        Limit(tenant.max_sessions(), absl::StrCat(tenant.max_sessions())),
        tenant.max_lease_sessions(),
        Limit(tenant.max_seconds(), absl::StrCat(tenant.max_seconds())),
        FormatRights(tenant.rights()));
  }
  return out;
}

}  // namespace warpline::cli
