#include <memory>

#include "transport/inproc/inproc_channel.h"
#include "transport/testing/channel_conformance.h"

namespace warpline::testing {
namespace {

class Inproc {
 public:
  explicit Inproc(Acceptor* acceptor, const ChannelOptions& options) : server_(acceptor, options) {}
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    return server_.Dial(handler, options);
  }

 private:
  InprocServer server_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, ChannelConformance, Inproc);

}  // namespace
}  // namespace warpline::testing
