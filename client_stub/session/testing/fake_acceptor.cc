#include "client_stub/session/testing/fake_acceptor.h"

#include <deque>
#include <utility>

#include "common/mutex.h"

namespace warpline::stub {
namespace {

class FakeSessionHandler final : public SessionHandler, public ClientLink {
 public:
  explicit FakeSessionHandler(FakeServer* server) : server_(server) {}

  void Started(Channel* channel) override { channel_ = channel; }

  bool NextFrame(Frame* frame) override {
    MutexLock lock(&mu_);
    if (to_client_.empty()) return false;
    *frame = std::move(to_client_.front());
    to_client_.pop_front();
    return true;
  }

  warpline::Accept OnFrame(Frame* frame) override {
    server_->OnFrame(this, *frame);
    return warpline::Accept::kTaken;
  }

  void OnClosed(const absl::Status&) override { server_->OnLinkGone(this); }

  void ToClient(Frame frame) override {
    {
      MutexLock lock(&mu_);
      to_client_.push_back(std::move(frame));
    }
    channel_->Wake();
  }

  void ServerClose(const absl::Status& status) override { channel_->Close(status); }

 private:
  FakeServer* const server_;
  Channel* channel_ = nullptr;
  Mutex mu_;
  std::deque<Frame> to_client_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<SessionHandler> FakeAcceptor::Accept(const std::string&, absl::Status*) {
  return std::make_unique<FakeSessionHandler>(server_);
}

}  // namespace warpline::stub
