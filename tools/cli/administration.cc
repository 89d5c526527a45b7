#include "tools/cli/administration.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/lease.h"
#include "tools/cli/pages.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::StatReply;
using warpline_internal::StatRequest;
using warpline_internal::WhereReply;

constexpr char kWhere[] = "/warpline_internal.Admin/Where";
constexpr char kStat[] = "/warpline_internal.Admin/Stat";

absl::Status NoAnswer(const std::string& endpoint, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("no answer from ", endpoint, ": ", status.message()));
}

absl::StatusOr<WhereReply> AskWhere(const UnaryClient& client) {
  return CallUnary<WhereReply>(&client, kWhere, warpline_internal::WhereRequest(), CallTimeout());
}

// Why this process cannot use the socket at `path`; empty when it can, as far as the files say.
std::string ProblemOf(const std::string& path) {
  if (path.empty()) return "it has none: start it with --admin_socket=PATH";
  if (access(path.c_str(), R_OK | W_OK) == 0) return "";
  if (errno == ENOENT) return absl::StrCat(Shown(path), " is not on this host");
  return absl::StrCat(Shown(path), ": ", std::strerror(errno));
}

absl::Status ForOperator(const std::string& endpoint, const std::string& problem) {
  return absl::PermissionDeniedError(absl::StrCat(
      "this is for the operator of the server at ", endpoint,
      ": run it on the server's host, as the user that the server runs as or as root (admin "
      "socket: ",
      problem,
      "). A socket that was forwarded or lies elsewhere is named with --endpoint=unix:/PATH"));
}

template <typename Client>
absl::StatusOr<StatReply> AskAll(const Client& client, const StatRequest& request) {
  return AskForAll(request, [&client](const StatRequest& part) {
    return CallUnary<StatReply>(&client, kStat, part, CallTimeout());
  });
}

absl::StatusOr<StatReply> AskScheduler(const std::string& endpoint) {
  const auto operators = OperatorCredential();
  if (!operators.ok()) return operators.status();
  const auto tenants = TenantCredential();
  if (!tenants.ok()) return tenants.status();
  StatRequest request;
  request.set_operator_credential(*operators);
  request.set_tenant_credential(*tenants);
  const LeaderClient client = ClientOf(endpoint);
  auto reply = AskAll(client, request);
  if (!reply.ok()) return NoAnswer(endpoint, reply.status());
  return reply;
}

}  // namespace

absl::StatusOr<UnaryClient> AdminOf(const std::string& endpoint) {
  const UnaryClient client(TargetOf(endpoint));
  const auto where = AskWhere(client);
  if (!where.ok()) return NoAnswer(endpoint, where.status());
  const std::string problem = ProblemOf(where->socket());
  // The socket may have come here by another way, and the endpoint may be the socket itself.
  const bool is_admin = endpoint == "unix:" + where->socket();
  if (!problem.empty() && !is_admin) return ForOperator(endpoint, problem);
  // Never with TLS: it does not leave the host.
  UnaryClient admin({.address = "unix:" + where->socket(), .tls = nullptr});
  const auto there = AskWhere(admin);
  if (!there.ok()) {
    return ForOperator(endpoint, absl::StrCat(Shown(where->socket()), " hangs up: ",
                                              Shown(std::string(there.status().message()))));
  }
  if (there->instance() != where->instance()) {
    return ForOperator(endpoint,
                       absl::StrCat(Shown(where->socket()), " here is that of another server"));
  }
  return admin;
}

absl::StatusOr<StatReply> AskForStat(const std::string& endpoint) {
  // Only schedulers are several.
  if (ParseAddresses(endpoint).size() > 1) return AskScheduler(endpoint);
  const auto admin = AdminOf(endpoint);
  if (absl::IsUnimplemented(admin.status())) return AskScheduler(endpoint);
  StatRequest request;
  if (admin.ok()) {
    auto reply = AskAll(*admin, request);
    if (!reply.ok()) return NoAnswer(admin->address(), reply.status());
    return reply;
  }
  if (!absl::IsPermissionDenied(admin.status())) return admin.status();
  const auto token = TokenOfLease(endpoint);
  if (!token.ok()) return token.status();
  request.set_token(*token);
  // A socket that was forwarded answers as the operator's.
  const UnaryClient client(TargetOf(endpoint));
  auto reply = AskAll(client, request);
  if (reply.ok()) return reply;
  if (request.token().empty()) return admin.status();
  return NoAnswer(endpoint, reply.status());
}

}  // namespace warpline::cli
