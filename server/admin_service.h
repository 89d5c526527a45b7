// Answers `warpline stat` and `warpline ps`. It includes gRPC and is for main.cc and tests.
#ifndef WARPLINE_SERVER_ADMIN_SERVICE_H_
#define WARPLINE_SERVER_ADMIN_SERVICE_H_

#include <string>

#include "proto/admin.grpc.pb.h"
#include "server/session_host.h"

namespace warpline {

// Thread-safe. Peers of other hosts get PERMISSION_DENIED: the answer names what tenants run.
class AdminService : public warpline_internal::Admin::Service {
 public:
  // `host` is borrowed.
  AdminService(SessionHost* host, std::string server_name)
      : host_(host), server_name_(std::move(server_name)) {}

  grpc::Status Stat(grpc::ServerContext* context, const warpline_internal::StatRequest* request,
                    warpline_internal::StatReply* reply) override;

 private:
  SessionHost* const host_;
  const std::string server_name_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_ADMIN_SERVICE_H_
