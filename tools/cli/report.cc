#include "tools/cli/report.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "transport/grpc/unary_call.h"

namespace warpline::cli {
namespace {

using warpline_internal::DeviceStat;
using warpline_internal::SessionStat;
using warpline_internal::StatReply;

// A program's name comes from a tenant and goes to somebody's terminal.
std::string Shown(const std::string& text) { return absl::Utf8SafeCHexEscape(text); }

std::string Bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace

absl::StatusOr<warpline_internal::ReplaceReply> AskToReplace(const std::string& endpoint,
                                                             uint64_t session) {
  warpline_internal::ReplaceRequest request;
  request.set_session(session);
  request.set_deadline_ms(10000);
  const auto answer =
      CallUnary({.address = endpoint, .tls = ClientTls(endpoint)}, "/warpline_internal.Admin/Replace",
                request.SerializeAsString(), absl::Seconds(120));
  if (!answer.ok()) return answer.status();
  warpline_internal::ReplaceReply reply;
  if (!reply.ParseFromString(*answer)) {
    return absl::InternalError(absl::StrCat(endpoint, " gave no answer of a Warpline server"));
  }
  return reply;
}

absl::StatusOr<StatReply> AskServer(const std::string& endpoint) {
  const auto answer = CallUnary({.address = endpoint, .tls = ClientTls(endpoint)},
                                "/warpline_internal.Admin/Stat", "", absl::Seconds(5));
  if (!answer.ok()) return answer.status();
  StatReply reply;
  if (!reply.ParseFromString(*answer)) {
    return absl::InternalError(absl::StrCat(endpoint, " gave no answer of a Warpline server"));
  }
  return reply;
}

std::string StatReport(const StatReply& reply) {
  std::string out = absl::StrCat("server           ", Shown(reply.server()),
                                 reply.draining() ? " (draining)" : "", "\n");
  absl::StrAppend(&out, "opened           ", reply.sessions_opened(), "\n");
  absl::StrAppend(&out, "refused          ", reply.sessions_refused(), "\n");
  absl::StrAppend(&out, "worker_deaths    ", reply.worker_deaths(), ", replaced ",
                  reply.worker_replacements(), "\n");
  absl::StrAppend(&out, "protocol_errors  ", reply.protocol_errors(), "\n");
  for (const DeviceStat& device : reply.devices()) {
    absl::StrAppend(&out, "\ngpu ", device.gpu(), "            ", Shown(device.name()), " (",
                    device.backend(), ", ", device.uuid(), ")\n");
    absl::StrAppend(&out, "sessions         ", device.sessions(), "\n");
    absl::StrAppend(&out, "memory           ", Bytes(device.granted_bytes()), " granted, ",
                    Bytes(device.pooled_bytes()), " pooled, of ", Bytes(device.capacity_bytes()),
                    " (device ", Bytes(device.total_bytes()), ")\n");
  }
  for (const SessionStat& session : reply.sessions()) {
    absl::StrAppend(&out, "\nsession ", session.id(), "        ", Shown(session.program()), " pid ",
                    session.client_pid(), ", ", session.state(), ", gpu ", session.gpu(), "\n");
    absl::StrAppend(&out, "peer             ", Shown(session.peer()), "\n");
    absl::StrAppend(&out, "commands         ", session.commands(), " (",
                    Bytes(session.command_bytes()), ")\n");
    absl::StrAppend(&out, "replies          ", Bytes(session.reply_bytes()), "\n");
    absl::StrAppend(&out, "frames           ", session.frames_received(), " in, ",
                    session.frames_sent(), " out\n");
    absl::StrAppend(&out, "memory_requests  ", session.memory_requests(), "\n");
    absl::StrAppend(&out, "memory           ", Bytes(session.memory_bytes()), " of ",
                    Bytes(session.quota_bytes()), "\n");
  }
  return out;
}

std::string PsReport(const StatReply& reply) {
  std::string out =
      absl::StrFormat("%8s %4s %-9s %8s %8s %8s %8s %12s %12s  %s  %s\n", "SESSION", "GPU", "STATE",
                      "AGE_S", "CLIENT", "WORKER", "RESTARTS", "MEMORY", "COMMANDS", "PROGRAM", "PEER");
  for (const SessionStat& session : reply.sessions()) {
    absl::StrAppendFormat(&out, "%8d %4d %-9s %8.0f %8d %8d %8d %12s %12d  %s  %s%s\n", session.id(),
                          session.gpu(), session.state(), session.age_seconds(),
                          session.client_pid(), session.worker_pid(), session.restarts(),
                          Bytes(session.memory_bytes()), session.commands(),
                          Shown(session.program()), Shown(session.peer()),
                          session.reason().empty() ? "" : " (" + Shown(session.reason()) + ")");
  }
  return out;
}

}  // namespace warpline::cli
