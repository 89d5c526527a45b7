#include "server/gpu_server/testing/session_fixture.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/steady_time.h"

namespace warpline::server {
namespace {

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/", path);
}

}  // namespace

SessionFixture::SessionFixture() {
  SetLogLevel(LogLevel::kError);
  options_.session.worker.path = Runfile("server/gpu_server/testing/fake_worker");
  options_.session.max_pending_requests = 8;
  options_.session.server_name = "test server";
  lease_options_.session_memory_bytes = 192 * kMiB;
  lease_options_.clock = [] { return SteadyNow(); };
}

void SessionFixture::StartServer(int devices) {
  std::vector<std::unique_ptr<DeviceMemory>> opened;
  for (int i = 0; i < devices; ++i) {
    DeviceMemoryOptions memory;
    memory.keeper.program.path = Runfile("server/keeper/fake_keeper");
    memory.keeper.program.args = {absl::StrCat("--devices=", devices), "--total_mib=256"};
    memory.keeper.ordinal = i;
    auto device = DeviceMemory::Open(memory);
    ASSERT_TRUE(device.ok()) << device.status();
    memory_.push_back(device->get());
    opened.push_back(std::move(*device));
  }
  options_.session.guarded.worker = options_.session.worker;
  auto book = LeaseBook::Create(std::move(lease_options_));
  ASSERT_TRUE(book.ok()) << book.status();
  leases_ = *std::move(book);
  options_.leases = leases_.get();
  host_ = std::make_unique<SessionHost>(std::move(options_), std::move(opened));
  server_ = std::make_unique<InprocServer>(host_.get(), ChannelOptions());
}

std::unique_ptr<TestClient> SessionFixture::Dial(absl::Status* refusal) {
  auto client = std::make_unique<TestClient>();
  auto channel = server_->Dial(client.get(), ChannelOptions());
  if (refusal != nullptr) *refusal = channel.status();
  if (!channel.ok()) return nullptr;
  client->Connected(std::move(*channel));
  return client;
}

std::unique_ptr<TestClient> SessionFixture::DialAndOpen() {
  auto client = Dial();
  EXPECT_TRUE(client->Open().has_value());
  return client;
}

void SessionFixture::ExpectNothingLeft() {
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  for (DeviceMemory* memory : memory_) {
    memory->Drain();
    EXPECT_EQ(memory->stats().pool.used_bytes(), 0u);
    EXPECT_EQ(memory->stats().pool.leaving_bytes, 0u);
  }
}

void SessionFixture::TearDown() {
  if (server_ == nullptr) return;
  server_->Shutdown();
  ExpectNothingLeft();
  host_.reset();
}

std::string SessionFixture::Body(char what, uint64_t a, uint64_t b) {
  std::string body(24, '\0');
  body[0] = what;
  std::memcpy(&body[8], &a, 8);
  std::memcpy(&body[16], &b, 8);
  return body;
}

}  // namespace warpline::server
