// A server of this process that answers unary methods, at a port that the system chooses.
//
//   testing::UnaryServer server({{"/a.B/C", [](const std::string& peer, const std::string& request)
//                                     -> absl::StatusOr<std::string> { return "answer"; }}});
//   const auto answer = UnaryClient({.address = server.address()}).Call("/a.B/C", "", ...);
#ifndef WARPLINE_TRANSPORT_TESTING_UNARY_SERVER_H_
#define WARPLINE_TRANSPORT_TESTING_UNARY_SERVER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/endpoint.h"
#include "transport/unary_methods.h"

namespace warpline::testing {

class UnaryServer {
 public:
  explicit UnaryServer(UnaryMethods methods) : server_(OptionsWith(std::move(methods))) {
    EXPECT_EQ(server_.Start({"127.0.0.1:0"}, &acceptor_), absl::OkStatus());
    address_ = absl::StrCat("127.0.0.1:", server_.port());
  }

  const std::string& address() const { return address_; }

 private:
  static GrpcServerOptions OptionsWith(UnaryMethods methods) {
    GrpcServerOptions options;
    options.methods = std::move(methods);
    return options;
  }

  EndpointAcceptor acceptor_;
  GrpcServer server_;
  std::string address_;
};

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_UNARY_SERVER_H_
