// The client's channel over a link: a LinkLoop and its thread.
#ifndef WARPLINE_TRANSPORT_LINK_CHANNEL_H_
#define WARPLINE_TRANSPORT_LINK_CHANNEL_H_

#include <memory>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/link_end.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"

namespace warpline {

class LinkChannel final : public Channel {
 public:
  // `transport` is a literal; the handler is borrowed.
  LinkChannel(const char* transport, std::unique_ptr<LinkEnd> end, ChannelHandler* handler,
              const ChannelOptions& options)
      : transport_(transport),
        loop_(std::move(end), options),
        thread_(StartLoopThread("wl-chan", [this, handler] {
          const LoopScope scope(&channel_loop);
          loop_.Run(handler);
        })) {}
  ~LinkChannel() override {
    loop_.Cancel();
    thread_.join();
  }

  const char* transport() const override { return transport_; }
  void Wake() override { loop_.Wake(); }
  bool Drive(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    loop_.Drive(done, limit);
    return true;
  }
  void Close(const absl::Status& status) override { loop_.Close(status); }

 private:
  const char* const transport_;
  LinkLoop loop_;
  std::thread thread_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LINK_CHANNEL_H_
