#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"
#include "transport/registry/dial.h"
#include "transport/testing/channel_conformance.h"
#include "transport/ucx/ucx_end.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline::testing {
namespace {

constexpr char kSecret[] = "0123456789abcdef";

// The server's end of one connection, which has a relay of its own.
class ServerChannel : public Channel {
 public:
  ServerChannel(std::unique_ptr<UcxEnd> end, Acceptor* acceptor, const ChannelOptions& options)
      : end_(end.get()),
        loop_(std::move(end), options),
        thread_(StartLoopThread("wl-chan", [this, acceptor] {
          const LoopScope scope(&channel_loop);
          Run(acceptor);
        })) {}
  ~ServerChannel() override {
    loop_.Cancel();
    thread_.join();
  }

  const char* transport() const override { return "ucx"; }
  void Wake() override { loop_.Wake(); }
  void Close(const absl::Status& status) override { loop_.Close(status); }

 private:
  void Run(Acceptor* acceptor) RUNS_ON(channel_loop) {
    ASSERT_EQ(end_->AwaitPeer(absl::Now() + absl::Seconds(60)), absl::OkStatus());
    absl::Status refusal;
    const std::unique_ptr<SessionHandler> handler = acceptor->Accept("ucx:test", &refusal);
    if (handler == nullptr) return end_->PutEnd(refusal);
    end_->Welcome();
    handler->Started(this);
    loop_.Run(handler.get());
  }

  UcxEnd* const end_;
  LinkLoop loop_;
  std::thread thread_;
};

template <const char* const kTransports>
class UcxOver {
 public:
  explicit UcxOver(Acceptor* acceptor, const ChannelOptions& options)
      : acceptor_(acceptor), options_(options) {}
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    auto end = UcxEnd::Listen("127.0.0.1", "", kSecret, *UcxTransports::Parse(kTransports));
    if (!end.ok()) return end.status();
    const std::string address = (*end)->address().ToString();
    {
      MutexLock lock(&mu_);
      servers_.push_back(std::make_unique<ServerChannel>(*std::move(end), acceptor_, options_));
    }
    return warpline::Dial({.address = address, .secret = kSecret, .via = kTransports}, handler,
                          options, absl::Seconds(60));
  }

 private:
  Acceptor* const acceptor_;
  const ChannelOptions options_;
  Mutex mu_;
  std::vector<std::unique_ptr<ServerChannel>> servers_ ABSL_GUARDED_BY(mu_);
};

constexpr char kTcp[] = "tcp";
INSTANTIATE_TYPED_TEST_SUITE_P(Ucx, ChannelConformance, UcxOver<kTcp>);

// Over UCX's shared memory, as another transport than TCP. UCX tells of no losses there, so the
// tests of these are left out (BUILD).
constexpr char kSharedMemory[] = "posix,sysv";
INSTANTIATE_TYPED_TEST_SUITE_P(UcxOverSharedMemory, ChannelConformance, UcxOver<kSharedMemory>);

}  // namespace
}  // namespace warpline::testing
