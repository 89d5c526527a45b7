#include "transport/grpc/health/health_listener.h"

#include <google/protobuf/wrappers.pb.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/serving/listen_address.h"

namespace warpline {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse.ServingStatus.
constexpr int kServing = 1;
constexpr int kNotServing = 2;

// Who asks does so every few seconds, on a connection of its own each time.
constexpr int kMaxConnections = 64;
constexpr int kMaxConnectionsOfPeer = 16;
constexpr int kMaxStreamsPerConnection = 4;
constexpr size_t kMaxBufferBytes = size_t{16} << 20;

// Check's messages have one field each: on the wire they are google.protobuf's wrappers.
std::string Response(int status) {
  google::protobuf::Int32Value response;
  response.set_value(status);
  return response.SerializeAsString();
}

}  // namespace

HealthListener::HealthListener()
    : server_([this] {
        GrpcServerOptions options;
        options.max_sessions = 0;
        options.max_connections = kMaxConnections;
        options.max_strange_connections_of_peer = kMaxConnectionsOfPeer;
        options.max_streams_per_connection = kMaxStreamsPerConnection;
        options.max_buffer_bytes = kMaxBufferBytes;
        options.bulk = false;
        options.methods[kCheck] = [this](const std::string&, const std::string& request) {
          return Check(request);
        };
        return options;
      }()) {}

HealthListener::~HealthListener() { server_.Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<HealthListener>> HealthListener::Start(const std::string& address) {
  if (address.empty()) return nullptr;
  if (auto status = CheckHealthAddress(address); !status.ok()) return status;
  std::unique_ptr<HealthListener> health(new HealthListener());
  if (auto status = health->server_.Start({address}, &health->nobody_); !status.ok()) {
    return status;
  }
  return health;
}

absl::StatusOr<std::string> HealthListener::Check(const std::string& request) const {
  google::protobuf::StringValue service;
  if (!service.ParseFromString(request)) return absl::InvalidArgumentError("no HealthCheckRequest");
  if (service.value() == "liveness") return Response(kServing);
  if (service.value().empty() || service.value() == "readiness") {
    return Response(ready_.load(std::memory_order_relaxed) ? kServing : kNotServing);
  }
  return absl::NotFoundError("unknown service: ask for liveness or readiness");
}

std::unique_ptr<SessionHandler> HealthListener::Nobody::Accept(const std::string&,
                                                               absl::Status* refusal) {
  *refusal = absl::UnimplementedError("only health is answered here");
  return nullptr;
}

}  // namespace warpline
