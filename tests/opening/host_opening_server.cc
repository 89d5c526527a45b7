#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/steady_time.h"
#include "gtest/gtest.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/session/session_host.h"
#include "tests/opening/opening_server.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline {
namespace {

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/", path);
}

class HostOpeningServer final : public OpeningServer {
 public:
  explicit HostOpeningServer(const OpeningServerOptions& options) {
    server::DeviceMemoryOptions memory;
    memory.keeper.program.path = Runfile("server/keeper/warpline-keeper");
    memory.keeper.backend = "cpu";
    auto device = server::DeviceMemory::Open(memory);
    EXPECT_TRUE(device.ok()) << device.status();
    std::vector<std::unique_ptr<server::DeviceMemory>> devices;
    if (device.ok()) devices.push_back(*std::move(device));
    server::SessionHostOptions host;
    host.max_sessions = options.max_sessions;
    host.session.max_arena_bytes = options.most_arena_bytes;
    host.session.worker.path = Runfile("server/worker/warpline-worker");
    host.session.worker.environment = {
        {"LD_PRELOAD", Runfile("tests/opening/libobstacle.so")},
        {"OBSTACLES", absl::StrJoin(options.obstacles, ",", [](std::string* out, uint64_t at) {
           absl::StrAppendFormat(out, "%#x", at);
         })}};
    server::LeaseBookOptions leases;
    leases.clock = [] { return SteadyNow(); };
    leases_ = server::LeaseBook::Create(std::move(leases)).value();
    host.leases = leases_.get();
    host_ = std::make_unique<server::SessionHost>(std::move(host), std::move(devices));
    server_ = std::make_unique<InprocServer>(host_.get(), ChannelOptions());
  }

  ~HostOpeningServer() override { server_->Shutdown(); }

  stub::Dialer MakeDialer() override {
    return [this](const stub::DialTarget&, ChannelHandler* handler, absl::Duration) {
      return server_->Dial(handler, ChannelOptions());
    };
  }

  uint64_t refused() override { return host_->counters().sessions_refused.value(); }

 private:
  std::unique_ptr<server::LeaseBook> leases_;
  std::unique_ptr<server::SessionHost> host_;
  std::unique_ptr<InprocServer> server_;
};

}  // namespace

std::unique_ptr<OpeningServer> NewHostOpeningServer(const OpeningServerOptions& options) {
  return std::make_unique<HostOpeningServer>(options);
}

}  // namespace warpline
