#include "tools/cli/report.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/admin.grpc.pb.h"

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

absl::StatusOr<StatReply> AskServer(const std::string& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.enable_http_proxy", 0);
  const auto stub = warpline_internal::Admin::NewStub(
      grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  StatReply reply;
  const grpc::Status status = stub->Stat(&context, {}, &reply);
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat("no answer from ", endpoint, ": ", status.error_message()));
  }
  return reply;
}

std::string StatReport(const StatReply& reply) {
  std::string out = absl::StrCat("server           ", Shown(reply.server()),
                                 reply.draining() ? " (draining)" : "", "\n");
  absl::StrAppend(&out, "opened           ", reply.sessions_opened(), "\n");
  absl::StrAppend(&out, "refused          ", reply.sessions_refused(), "\n");
  absl::StrAppend(&out, "worker_deaths    ", reply.worker_deaths(), "\n");
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
      absl::StrFormat("%8s %4s %-8s %8s %8s %8s %12s %12s  %s\n", "SESSION", "GPU", "STATE",
                      "AGE_S", "CLIENT", "WORKER", "MEMORY", "COMMANDS", "PROGRAM");
  for (const SessionStat& session : reply.sessions()) {
    absl::StrAppendFormat(&out, "%8d %4d %-8s %8.0f %8d %8d %12s %12d  %s\n", session.id(),
                          session.gpu(), session.state(), session.age_seconds(),
                          session.client_pid(), session.worker_pid(), Bytes(session.memory_bytes()),
                          session.commands(), Shown(session.program()));
  }
  return out;
}

}  // namespace warpline::cli
