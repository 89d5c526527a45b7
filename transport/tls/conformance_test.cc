#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"
#include "transport/registry/dial.h"
#include "transport/tcp/socket_address.h"
#include "transport/testing/channel_conformance.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_end.h"
#include "transport/tls/tls_hello.h"
#include "transport/tls/tls_stream.h"

namespace warpline::testing {
namespace {

constexpr char kSecret[] = "0123456789abcdef";

// The server's end of one connection, which has a port of its own.
class ServerChannel : public Channel {
 public:
  ServerChannel(UniqueFd listening, Acceptor* acceptor, const ChannelOptions& options)
      : listening_(std::move(listening)),
        options_(options),
        thread_(StartLoopThread("wl-chan", [this, acceptor] {
          const LoopScope scope(&channel_loop);
          Run(acceptor);
        })) {}
  ~ServerChannel() override {
    {
      MutexLock lock(&mu_);
      if (loop_ != nullptr) loop_->Cancel();
    }
    thread_.join();
  }

  const char* transport() const override { return "tls"; }
  void Wake() override {
    MutexLock lock(&mu_);
    if (loop_ != nullptr) loop_->Wake();
  }
  void Close(const absl::Status& status) override {
    MutexLock lock(&mu_);
    if (loop_ != nullptr) loop_->Close(status);
  }

 private:
  void Run(Acceptor* acceptor) RUNS_ON(channel_loop) {
    auto stream = TlsStream::Create(UniqueFd(accept4(listening_.get(), nullptr, nullptr, 0)),
                                    TlsStream::Role::kAccepts, kSecret);
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_EQ((*stream)->AwaitHandshake(absl::Now() + absl::Seconds(60)), absl::OkStatus());
    TlsHello hello = {};
    for (size_t got = 0; got < sizeof(hello);) {
      const auto read = (*stream)->Read(reinterpret_cast<char*>(&hello) + got, sizeof(hello) - got);
      ASSERT_TRUE(read.ok()) << read.status();
      got += *read;
    }
    ASSERT_EQ(hello.slot, kSessionSlot);
    auto end = TlsEnd::Create(*std::move(stream));
    ASSERT_TRUE(end.ok()) << end.status();
    absl::Status refusal;
    const std::unique_ptr<SessionHandler> handler = acceptor->Accept("tls:test", &refusal);
    if (handler == nullptr) return (*end)->PutEnd(refusal);
    (*end)->Welcome();
    {
      MutexLock lock(&mu_);
      loop_ = std::make_unique<LinkLoop>(*std::move(end), options_);
    }
    handler->Started(this);
    loop_->Run(handler.get());
  }

  const UniqueFd listening_;
  const ChannelOptions options_;
  Mutex mu_;
  std::unique_ptr<LinkLoop> loop_;  // Set once, under mu_.
  std::thread thread_;
};

class Tls {
 public:
  explicit Tls(Acceptor* acceptor, const ChannelOptions& options)
      : acceptor_(acceptor), options_(options) {}
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    const auto any = SocketAddress::Of("127.0.0.1", 0);
    UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listening.get(), any->get(), any->size()) != 0 || listen(listening.get(), 1) != 0) {
      return absl::InternalError("cannot listen");
    }
    const std::string place = SocketAddress::OfSocket(listening.get())->ToString();
    {
      MutexLock lock(&mu_);
      servers_.push_back(
          std::make_unique<ServerChannel>(std::move(listening), acceptor_, options_));
    }
    return warpline::Dial({.address = TlsAddress(place), .secret = kSecret}, handler, options,
                          absl::Seconds(60));
  }

 private:
  Acceptor* const acceptor_;
  const ChannelOptions options_;
  Mutex mu_;
  std::vector<std::unique_ptr<ServerChannel>> servers_ ABSL_GUARDED_BY(mu_);
};

INSTANTIATE_TYPED_TEST_SUITE_P(Tls, ChannelConformance, Tls);

}  // namespace
}  // namespace warpline::testing
