#include "tools/cli/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/cli/administration.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::DeviceStat;
using warpline_internal::SessionStat;
using warpline_internal::StatReply;

// The pause between looks at whether a replacement is done.
constexpr absl::Duration kReplacePoll = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<warpline_internal::ReplaceReply> AskToReplace(
    const std::string& endpoint, warpline_internal::ReplaceRequest request) {
  const auto admin = AdminOf(endpoint);
  if (!admin.ok()) return admin.status();
  request.set_deadline_ms(10000);
  request.set_after(0);
  warpline_internal::ReplaceReply all;
  while (true) {
    auto reply = CallUnary<warpline_internal::ReplaceReply>(
        &*admin, "/warpline_internal.Admin/Replace", request, CallTimeout());
    if (!reply.ok()) {
      return absl::Status(reply.status().code(), absl::StrCat("no answer from ", admin->address(),
                                                              ": ", reply.status().message()));
    }
    all.MergeFrom(*reply);
    if (reply->done()) return all;
    request.set_ticket(reply->ticket());
    request.set_after(static_cast<uint32_t>(all.sessions_size()));
    // More may have been done already than was told.
    if (reply->sessions_size() > 0) continue;
    absl::SleepFor(kReplacePoll);
  }
}

absl::StatusOr<StatReply> AskServer(const std::string& endpoint) { return AskForStat(endpoint); }

std::string StatReport(StatReply reply) {
  MakeShown(&reply);
  std::string out = absl::StrCat("server           ", reply.server(),
                                 reply.draining() ? " (draining)" : "", "\n");
  absl::StrAppend(&out, "opened           ", reply.sessions_opened(), "\n");
  absl::StrAppend(&out, "refused          ", reply.sessions_refused(), "\n");
  absl::StrAppend(&out, "worker_deaths    ", reply.worker_deaths(), ", replaced ",
                  reply.worker_replacements(), "\n");
  absl::StrAppend(&out, "protocol_errors  ", reply.protocol_errors(), "\n");
  absl::StrAppend(&out, "resumes          ", reply.resumes(), "\n");
  absl::StrAppend(&out, "transfers        ", reply.transfers(), "\n");
  absl::StrAppend(&out, "clients_vanished ", reply.clients_vanished(), "\n");
  if (reply.host_memory_limit_bytes() != 0) {
    absl::StrAppend(&out, "host_memory      ", ShownBytes(reply.host_memory_bytes()),
                    " shared with clients, of ", ShownBytes(reply.host_memory_limit_bytes()), "\n");
  }
  if (reply.swap_limit_bytes() != 0) {
    absl::StrAppend(&out, "swap             ", ShownBytes(reply.swap_bytes()),
                    " moved from devices, of ", ShownBytes(reply.swap_limit_bytes()), "\n");
  }
  for (const DeviceStat& device : reply.devices()) {
    absl::StrAppend(&out, "\ngpu ", device.gpu(), "            ", device.name(), " (",
                    device.backend(), ", ", device.uuid(), ")\n");
    absl::StrAppend(&out, "sessions         ", device.sessions(), "\n");
    absl::StrAppend(&out, "memory           ", ShownBytes(device.granted_bytes()), " granted, ",
                    ShownBytes(device.pooled_bytes()), " pooled, of ",
                    ShownBytes(device.capacity_bytes()), " (device ",
                    ShownBytes(device.total_bytes()), ")\n");
  }
  for (const SessionStat& session : reply.sessions()) {
    absl::StrAppend(&out, "\nsession ", session.id(), "        ", session.program(), " pid ",
                    session.client_pid(), ", ", session.state(), ", gpu ", ShownGpus(session),
                    "\n");
    absl::StrAppend(&out, "peer             ", session.peer(), "\n");
    absl::StrAppend(&out, "transport        ",
                    session.transport().empty() ? "-" : session.transport(), "\n");
    absl::StrAppend(&out, "commands         ", session.commands(), " (",
                    ShownBytes(session.command_bytes()), ")\n");
    for (const auto& usage : session.usage()) {
      absl::StrAppendFormat(
          &out, "%-16s %s\n", usage.name(),
          usage.bytes() ? ShownBytes(usage.value()) : absl::StrCat(usage.value()));
    }
    absl::StrAppend(&out, "replies          ", ShownBytes(session.reply_bytes()), "\n");
    absl::StrAppend(&out, "bulk             ", ShownBytes(session.bulk_bytes()), "\n");
    if (session.host_window_bytes() > 0) {
      absl::StrAppend(&out, "host_window      ", ShownBytes(session.host_window_bytes()), "\n");
    }
    absl::StrAppend(&out, "frames           ", session.frames_received(), " in, ",
                    session.frames_sent(), " out\n");
    absl::StrAppend(&out, "memory_requests  ", session.memory_requests(), "\n");
    absl::StrAppend(&out, "memory_refused   ", session.memory_refused(),
                    session.memory_refused() == 0 ? "" : ", last: ", session.memory_refusal(),
                    "\n");
    absl::StrAppend(&out, "resumes          ", session.resumes(), "\n");
    absl::StrAppend(&out, "transfers        ", session.transfers(), "\n");
    absl::StrAppend(&out, "frames_again     ", session.frames_again(), "\n");
    absl::StrAppend(&out, "unacknowledged   ", session.unacknowledged_bytes(), "\n");
    absl::StrAppend(&out, "memory           ", ShownBytes(session.memory_bytes()), " of ",
                    ShownBytes(session.quota_bytes()), "\n");
    absl::StrAppend(&out, "memory_away      ", ShownBytes(session.away_bytes()), "\n");
  }
  return out;
}

// How long the session has had its devices; empty where the server does not say.
std::string ShownCompute(const SessionStat& session) {
  for (const auto& usage : session.usage()) {
    if (usage.name() != "compute_us" || usage.value() == 0) continue;
    return absl::StrFormat("%.1fs", static_cast<double>(usage.value()) / 1e6);
  }
  return "";
}

std::string PsReport(StatReply reply) {
  MakeShown(&reply);
  if (reply.sessions_size() == 0) {
    return absl::StrCat("no sessions on ", reply.server(), "\n");
  }
  Table table({{"SESSION", true},
               {"SERVER", false, true},
               {"GPU", true},
               {"TIER", false, true},
               {"STATE"},
               {"AGE", true},
               {"MEMORY", true},
               {"AWAY", true, true},
               {"QUOTA", true},
               {"COMMANDS", true},
               {"COMPUTE", true, true},
               {"RESTARTS", true, true},
               {"TENANT", false, true},
               {"LEASE", false, true},
               {"WORKER", true},
               {"PID", true},
               {"PROGRAM"},
               {"TRANSPORT", false, true},
               {"PEER"},
               {"WHY", false, true}});
  for (const SessionStat& session : reply.sessions()) {
    table.Add({absl::StrCat(session.id()),
               session.server(),
               ShownGpus(session),
               session.tier(),
               session.state(),
               ShownAge(session.age_seconds()),
               ShownBytes(session.memory_bytes()),
               session.away_bytes() == 0 ? "" : ShownBytes(session.away_bytes()),
               ShownBytes(session.quota_bytes()),
               absl::StrCat(session.commands()),
               ShownCompute(session),
               session.restarts() == 0 ? "" : absl::StrCat(session.restarts()),
               session.tenant(),
               session.lease(),
               session.worker_pid() == 0 ? "-" : absl::StrCat(session.worker_pid()),
               absl::StrCat(session.client_pid()),
               session.program(),
               session.transport(),
               session.peer(),
               session.reason()});
  }
  return table.Text();
}

}  // namespace warpline::cli
