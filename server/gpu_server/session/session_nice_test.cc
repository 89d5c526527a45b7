// Tests that the nice value in a client's hello reaches the dispatch of its devices.
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/steady_time.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "proto/session.pb.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/dispatch_pages.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::server {
namespace {

class SessionNiceTest : public SessionFixture {
 protected:
  SessionNiceTest() {
    options_.dispatcher = std::move(*dispatch::Dispatcher::Create({}));
    dispatcher_ = options_.dispatcher.get();
    lease_options_.required = true;
    lease_options_.server_name = "s";
  }

  void SetUp() override {
    SessionFixture::SetUp();
    StartServer();
    leases_->SetKeys({key_.verify_key()});
  }

  struct Tenant {
    std::unique_ptr<TestClient> client;
    std::unique_ptr<dispatch::DispatchPage> page;
  };
  // Opens a session with that nice value, which always has kernels in flight.
  Tenant Open(const std::string& name, int32_t nice) {
    DispatchPages pages;
    LeaseToken token;
    token.lease = token.tenant = name;
    token.server = "s";
    token.max_sessions = 2;
    token.expires = SteadyNow() + absl::Hours(1);
    auto hello = TestClient::GoodHello();
    hello.set_token(SignToken(key_, token).value());
    hello.set_niceness(nice);
    Tenant tenant;
    tenant.client = Dial();
    EXPECT_TRUE(tenant.client->Open(hello).has_value());
    tenant.page = pages.TakeNew();
    tenant.page->device(0)[0].worker.executors_in_flight = 1;
    return tenant;
  }
  // Waits until the tenant is promised this share of the device, in thousandths.
  void AwaitShare(const std::string& tenant, uint32_t share) {
    for (;;) {
      for (const auto& [ordinal, use] : dispatcher_->Uses()) {
        for (const dispatch::SliceUse& slice : use.slices) {
          if (slice.tenant == tenant && slice.share == share) return;
        }
      }
      std::this_thread::yield();
    }
  }

  dispatch::Dispatcher* dispatcher_ = nullptr;  // The server's.
  const SigningKey key_ = SigningKey::Generate().value();
};

TEST_F(SessionNiceTest, ANiceClientIsPromisedLess) {
  const Tenant usual = Open("usual", 0);
  const Tenant nice = Open("nice", 10);
  AwaitShare("nice", 1000 * 110 / (110 + 1024));
  AwaitShare("usual", 1000 * 1024 / (110 + 1024));
}

TEST_F(SessionNiceTest, NoValueRaisesAClientAboveTheOthers) {
  const Tenant usual = Open("usual", 0);
  const Tenant greedy = Open("greedy", -20);
  const Tenant hostile = Open("hostile", std::numeric_limits<int32_t>::min());
  AwaitShare("hostile", 333);
  AwaitShare("greedy", 333);
  AwaitShare("usual", 333);
}

TEST_F(SessionNiceTest, ANumberThatIsNoNiceValueIsTheLeastStanding) {
  const Tenant usual = Open("usual", 0);
  const Tenant hostile = Open("hostile", std::numeric_limits<int32_t>::max());
  AwaitShare("hostile", 1000 * 15 / (15 + 1024));
}

TEST_F(SessionNiceTest, ANiceSessionHasLittleInFlightBesideOthersOfItsLease) {
  const Tenant nice = Open("tenant", 1);
  const Tenant usual = Open("tenant", 0);
  while (!nice.page->device(0)[0].grant().brief()) std::this_thread::yield();
  EXPECT_FALSE(usual.page->device(0)[0].grant().brief());
}

}  // namespace
}  // namespace warpline::server
