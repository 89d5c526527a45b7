#include "scheduler/page/page_server.h"

#include <civetweb.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"

namespace warpline::scheduler::page {
namespace {

std::string HeaderOf(const mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? "" : value;
}

absl::string_view PhraseOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

void Write(mg_connection* connection, const PageResponse& response) {
  std::string head = absl::StrCat(
      "HTTP/1.1 ", response.status, " ", PhraseOf(response.status),
      "\r\nDate: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
      "\r\nConnection: close\r\n");
  for (const auto& [name, value] : SafetyHeaders()) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  if (response.status != 304) {
    absl::StrAppend(&head, "Content-Length: ", response.body.size(), "\r\n");
  }
  head += "\r\n";
  if (mg_write(connection, head.data(), head.size()) <= 0 || response.body.empty()) return;
  mg_write(connection, response.body.data(), response.body.size());
}

// civetweb is C, and answers itself where this returns 0.
int Begin(mg_connection* connection) {
  auto* const handler = static_cast<PageHandler*>(mg_get_user_data(mg_get_context(connection)));
  const mg_request_info* const info = mg_get_request_info(connection);
  PageRequest request;
  request.method = info->request_method == nullptr ? "" : info->request_method;
  request.path = info->request_uri == nullptr ? "" : info->request_uri;
  if (info->query_string != nullptr) absl::StrAppend(&request.path, "?", info->query_string);
  request.authorization = HeaderOf(connection, "Authorization");
  request.if_none_match = HeaderOf(connection, "If-None-Match");
  request.peer = info->remote_addr;
  request.host = HeaderOf(connection, "Host");
  request.origin = HeaderOf(connection, "Origin");
  const PageResponse response = handler->Answer(request);
  Write(connection, response);
  return response.status;
}

// What civetweb itself refuses: requests that are none.
int Refuse(mg_connection* connection, int status, const char*) {
  PageResponse response;
  response.status = status;
  response.headers = {{"Cache-Control", "no-store"}};
  Write(connection, response);
  return 0;
}

// Strangers could fill the log with it.
int DropMessage(const mg_connection*, const char*) { return 1; }

}  // namespace

absl::Status CheckPageAddress(const std::string& address) {
  if (address.empty()) return absl::OkStatus();
  if (absl::StartsWith(address, "unix:")) {
    return absl::InvalidArgumentError("--page_listen must be host:port");
  }
  const absl::Status status = CheckListenAddress(address, /*tls=*/false);
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(absl::StrCat(
      "--page_listen=", address,
      ": credentials are sent there in plain text, so it must be a loopback address. From "
      "elsewhere "
      "it is reached by `ssh -L`, `kubectl port-forward` or a proxy on this host that speaks TLS"));
}

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(const std::string& address,
                                                              PageHandler* handler,
                                                              absl::Duration patience) {
  if (address.empty()) return nullptr;
  if (auto status = CheckPageAddress(address); !status.ok()) return status;
  mg_callbacks callbacks = {};
  callbacks.begin_request = &Begin;
  callbacks.http_error = &Refuse;
  callbacks.log_message = &DropMessage;
  const std::string threads = absl::StrCat(kThreads);
  const std::string waiting = absl::StrCat(kWaitingConnections);
  const std::string bytes = absl::StrCat(kMaxRequestBytes);
  const std::string milliseconds = absl::StrCat(absl::ToInt64Milliseconds(patience));
  // A connection is for one request, so that nobody keeps a thread by being silent between two.
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           threads.c_str(),
                           "connection_queue",
                           waiting.c_str(),
                           "max_request_size",
                           bytes.c_str(),
                           "request_timeout_ms",
                           milliseconds.c_str(),
                           "enable_keep_alive",
                           "no",
                           "decode_url",
                           "no",
                           "access_control_allow_origin",
                           "",
                           "access_control_allow_methods",
                           "",
                           nullptr};
  mg_init_library(0);
  auto server = std::unique_ptr<PageServer>(new PageServer());
  server->context_ = mg_start(&callbacks, handler, options);
  mg_server_port port = {};
  if (server->context_ == nullptr || mg_get_server_ports(server->context_, 1, &port) != 1) {
    return absl::UnavailableError(absl::StrCat("cannot listen on --page_listen=", address));
  }
  server->port_ = port.port;
  return server;
}

PageServer::~PageServer() {
  if (context_ != nullptr) mg_stop(context_);
  mg_exit_library();
}

}  // namespace warpline::scheduler::page
