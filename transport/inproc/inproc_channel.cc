#include "transport/inproc/inproc_channel.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "transport/channel_loop.h"
#include "transport/inproc/inproc_end.h"
#include "transport/inproc/inproc_link.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using inproc_internal::Bell;
using inproc_internal::InprocEnd;
using inproc_internal::InprocLink;

// What both ends of a new channel are made from.
struct Ends {
  std::shared_ptr<InprocLink> link = std::make_shared<InprocLink>();
  std::shared_ptr<Bell> bells[2] = {std::make_shared<Bell>(), std::make_shared<Bell>()};

  std::unique_ptr<LinkLoop> MakeLoop(int end, const ChannelOptions& options) const {
    return std::make_unique<LinkLoop>(
        std::make_unique<InprocEnd>(end, link, bells[end], bells[1 - end]), options);
  }
};

class InprocChannel : public Channel {
 public:
  InprocChannel(std::unique_ptr<LinkLoop> loop, ChannelHandler* handler)
      : loop_(std::move(loop)), thread_(StartLoopThread("wl-chan", [this, handler] {
          const LoopScope scope(&channel_loop);
          loop_->Run(handler);
        })) {}
  ~InprocChannel() override {
    loop_->Cancel();
    thread_.join();
  }
  const char* transport() const override { return "inproc"; }
  void Wake() override { loop_->Wake(); }
  void Close(const absl::Status& status) override { loop_->Close(status); }

 private:
  const std::unique_ptr<LinkLoop> loop_;
  std::thread thread_;
};

}  // namespace

std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>> MakeInprocPair(
    ChannelHandler* first, ChannelHandler* second, const ChannelOptions& options) {
  const Ends ends;
  auto a = std::make_unique<InprocChannel>(ends.MakeLoop(0, options), first);
  auto b = std::make_unique<InprocChannel>(ends.MakeLoop(1, options), second);
  return {std::move(a), std::move(b)};
}

class InprocServer::Impl {
 public:
  Impl(Acceptor* acceptor, const ChannelOptions& options)
      : acceptor_(acceptor), options_(options) {}

  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    const Ends ends;
    auto answer = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> answered = answer->get_future();
    {
      std::vector<std::unique_ptr<Session>> dead;  // Joined outside the lock.
      MutexLock lock(&mu_);
      if (shut_down_) return absl::UnavailableError("the server has shut down");
      Reap(&dead);
      sessions_.push_back(std::make_unique<Session>(this, ends.MakeLoop(1, options_), answer));
    }
    const absl::Status status = answered.get();
    if (!status.ok()) return status;
    return std::make_unique<InprocChannel>(ends.MakeLoop(0, options), handler);
  }

  int sessions() const { return running_.load(std::memory_order_relaxed); }

  void Shutdown() {
    std::vector<std::unique_ptr<Session>> all;
    MutexLock lock(&mu_);
    shut_down_ = true;
    all.swap(sessions_);
  }

 private:
  class Session : public Channel {
   public:
    Session(Impl* server, std::unique_ptr<LinkLoop> loop,
            const std::shared_ptr<std::promise<absl::Status>>& answer)
        : loop_(std::move(loop)), thread_(StartLoopThread("wl-chan", [this, server, answer] {
            const LoopScope scope(&channel_loop);
            ++server->running_;
            Run(server->acceptor_, answer.get());
            --server->running_;
            over_.store(true, std::memory_order_release);
          })) {}
    ~Session() override {
      loop_->Cancel();
      thread_.join();
    }
    const char* transport() const override { return "inproc"; }
    void Wake() override { loop_->Wake(); }
    void Close(const absl::Status& status) override { loop_->Close(status); }
    bool over() const { return over_.load(std::memory_order_acquire); }

   private:
    void Run(Acceptor* acceptor, std::promise<absl::Status>* answer) RUNS_ON(channel_loop) {
      absl::Status refusal;
      const std::unique_ptr<SessionHandler> handler = acceptor->Accept("inproc", &refusal);
      if (handler == nullptr) {
        if (refusal.ok()) refusal = absl::InternalError("session refused without a reason");
        answer->set_value(refusal);
        return;
      }
      handler->Started(this);
      answer->set_value(absl::OkStatus());
      loop_->Run(handler.get());
    }

    const std::unique_ptr<LinkLoop> loop_;
    std::atomic<bool> over_{false};
    std::thread thread_;
  };

  void Reap(std::vector<std::unique_ptr<Session>>* dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (size_t i = 0; i < sessions_.size();) {
      if (sessions_[i]->over()) {
        dead->push_back(std::move(sessions_[i]));
        sessions_[i] = std::move(sessions_.back());
        sessions_.pop_back();
      } else {
        ++i;
      }
    }
  }

  Acceptor* const acceptor_;
  const ChannelOptions options_;
  std::atomic<int> running_{0};
  Mutex mu_;
  std::vector<std::unique_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

InprocServer::InprocServer(Acceptor* acceptor, const ChannelOptions& options)
    : impl_(std::make_unique<Impl>(acceptor, options)) {}
InprocServer::~InprocServer() { impl_->Shutdown(); }
absl::StatusOr<std::unique_ptr<Channel>> InprocServer::Dial(ChannelHandler* handler,
                                                            const ChannelOptions& options) {
  return impl_->Dial(handler, options);
}
int InprocServer::sessions() const { return impl_->sessions(); }
void InprocServer::Shutdown() { impl_->Shutdown(); }

}  // namespace warpline
