#include "scheduler/redirector.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "scheduler/store/testing/state_house.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline::scheduler {
namespace {

using testing::HasSubstr;
using warpline_internal::Hello;
using warpline_internal::Redirect;

// Says its hello and waits for the answer.
class Client : public ChannelHandler {
 public:
  explicit Client(const Hello& hello) { hello_ = Frame{kHello, hello.SerializeAsString()}; }

  bool NextFrame(Frame* frame) override {
    if (!hello_.has_value()) return false;
    *frame = *std::move(hello_);
    hello_.reset();
    return true;
  }
  Accept OnFrame(Frame* frame) override {
    MutexLock lock(&mu_);
    if (frame->kind == kRedirect) (void)redirect.ParseFromString(frame->payload);
    return Accept::kTaken;
  }
  void OnClosed(const absl::Status& status) override {
    MutexLock lock(&mu_);
    closed_ = status;
    changed_.NotifyAll();
  }
  absl::Status AwaitClosed() {
    MutexLock lock(&mu_);
    while (!closed_.has_value()) changed_.Wait(&mu_);
    return *closed_;
  }

  Redirect redirect;

 private:
  std::optional<Frame> hello_;
  Mutex mu_;
  CondVar changed_;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
};

class RedirectorTest : public testing::Test {
 protected:
  // Makes a pool with one server of three devices, and a tenant.
  void SetUp() override {
    std::string folder = testing::TempDir() + "/redirector_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    SchedulerOptions options;
    options.operator_credential = "operator";
    options.clock = [] { return absl::FromUnixSeconds(1800000000); };
    auto keys = KeyRing::Open(folder + "/keys", absl::Hours(1), absl::Seconds(5), options.clock());
    auto store = OpenSqliteStore(folder + "/state.db");
    ASSERT_TRUE(keys.ok() && store.ok());
    auto scheduler = Scheduler::Create(options, *std::move(store), *std::move(keys));
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    role_ = std::make_unique<SoleRole>(*std::move(scheduler));
    scheduler_ = *role_->Leading();
    warpline_internal::ServerRequest server;
    server.set_credential("operator");
    server.set_name("s");
    server.set_create(true);
    warpline_internal::ServerReport report;
    report.set_credential(scheduler_->PutServer(server)->credential());
    report.set_name("s");
    report.set_endpoint("s:14000");
    for (const char* uuid : {"GPU-a", "GPU-b", "GPU-c"}) {
      auto* const device = report.add_devices();
      device->set_uuid(uuid);
      device->set_capacity_bytes(16ull << 30);
    }
    ASSERT_TRUE(scheduler_->Report(report, true).ok());
    warpline_internal::TenantRequest tenant;
    tenant.set_credential("operator");
    tenant.set_name("t");
    tenant.set_create(true);
    credential_ = scheduler_->PutTenant(tenant)->credential();
    redirector_ = std::make_unique<Redirector>(role_.get());
    server_ = std::make_unique<InprocServer>(redirector_.get(), ChannelOptions());
  }

  // Returns the devices of the lease that a program gets when it asks for `device`, or why it gets
  // none.
  std::string Dial(const std::string& device) {
    Hello hello;
    hello.set_min_version(kLeastProtocolVersion);
    hello.set_max_version(kProtocolVersion);
    hello.set_credential(credential_);
    hello.set_device(device);
    Client client(hello);
    auto channel = server_->Dial(&client, ChannelOptions());
    EXPECT_TRUE(channel.ok());
    (*channel)->Wake();
    const absl::Status closed = client.AwaitClosed();
    if (!closed.ok()) return std::string(closed.message());
    EXPECT_EQ(client.redirect.endpoint(), "s:14000");
    const auto leases = scheduler_->Leases("operator");
    return leases->leases(leases->leases_size() - 1).device();
  }

  std::unique_ptr<SoleRole> role_;
  std::shared_ptr<Scheduler> scheduler_;
  std::string credential_;
  std::unique_ptr<Redirector> redirector_;
  std::unique_ptr<InprocServer> server_;
};

TEST_F(RedirectorTest, ProgramGetsOneDeviceUnlessItListsSeveral) {
  EXPECT_THAT(Dial(""), testing::Not(HasSubstr(",")));
  EXPECT_THAT(Dial("0"), testing::Not(HasSubstr(",")));
}

TEST_F(RedirectorTest, OrdinalsSayHowMany) {
  EXPECT_EQ(Dial("1,0,2"), "GPU-a,GPU-b,GPU-c");
  EXPECT_THAT(Dial("0,1,2,3"), HasSubstr("no capacity"));
}

TEST_F(RedirectorTest, UuidsSayWhich) { EXPECT_EQ(Dial("GPU-c,GPU-a"), "GPU-c,GPU-a"); }

TEST_F(RedirectorTest, WhatNoLeaseHasIsRefused) {
  for (const char* device : {"1", "0,2", "0,0", "0,x", ",", "-1", "4294967295"}) {
    EXPECT_THAT(Dial(device), HasSubstr("numbered from 0")) << device;
  }
}

}  // namespace
}  // namespace warpline::scheduler
