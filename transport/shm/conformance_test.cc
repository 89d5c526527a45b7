#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/registry/dial.h"
#include "transport/registry/listen.h"
#include "transport/testing/channel_conformance.h"

namespace warpline::testing {
namespace {

class Shm {
 public:
  explicit Shm(Acceptor* acceptor, const ChannelOptions& options)
      : address_(absl::StrCat("shm://warpline-test-", getpid(), "-", absl::GetCurrentTimeNanos())),
        listener_(MakeListener({.channel = options})) {
    EXPECT_EQ(listener_->Start({address_}, acceptor), absl::OkStatus());
  }
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    return warpline::Dial({.address = address_, .listener_uid = getuid()}, handler, options,
                          absl::Minutes(4));
  }

 private:
  const std::string address_;
  const std::unique_ptr<Listener> listener_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Shm, ChannelConformance, Shm);

}  // namespace
}  // namespace warpline::testing
