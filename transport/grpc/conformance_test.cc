#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/channel_conformance.h"
#include "transport/testing/temp_folder.h"

namespace warpline::testing {
namespace {

class GrpcTcp {
 public:
  explicit GrpcTcp(Acceptor* acceptor, const ChannelOptions& options)
      : server_({.channel = options}) {
    EXPECT_EQ(server_.Start({"127.0.0.1:0"}, acceptor), absl::OkStatus());
  }
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    return DialGrpc({.address = absl::StrCat("127.0.0.1:", server_.port())}, handler, options,
                    absl::Minutes(4));
  }

 private:
  GrpcServer server_;
};

class GrpcUnix {
 public:
  explicit GrpcUnix(Acceptor* acceptor, const ChannelOptions& options)
      : address_(absl::StrCat("unix:", folder_.path(), "/s")), server_({.channel = options}) {
    EXPECT_EQ(server_.Start({address_}, acceptor), absl::OkStatus());
  }
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    return DialGrpc({.address = address_}, handler, options, absl::Seconds(60));
  }

 private:
  TempFolder folder_;
  const std::string address_;
  GrpcServer server_;
};

using Grpc = ::testing::Types<GrpcTcp, GrpcUnix>;
INSTANTIATE_TYPED_TEST_SUITE_P(Grpc, ChannelConformance, Grpc);

}  // namespace
}  // namespace warpline::testing
