#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_end.h"
#include "transport/shm/shm_packets.h"
#include "transport/transport.h"
#include "transport/unix_connect.h"

namespace warpline {
namespace {

using shm_internal::ShmEnd;

class ShmClientChannel : public Channel {
 public:
  ShmClientChannel(std::unique_ptr<ShmEnd> end, ChannelHandler* handler,
                   const ChannelOptions& options)
      : loop_(std::move(end), options), thread_(StartLoopThread("wl-chan", [this, handler] {
          const LoopScope scope(&channel_loop);
          loop_.Run(handler);
        })) {}
  ~ShmClientChannel() override {
    loop_.Cancel();
    thread_.join();
  }

  const char* transport() const override { return "shm"; }
  void Wake() override { loop_.Wake(); }
  bool Drive(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    loop_.Drive(done, limit);
    return true;
  }
  void Close(const absl::Status& status) override { loop_.Close(status); }

 private:
  LinkLoop loop_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Channel>> DialShm(const DialTarget& target, ChannelHandler* handler,
                                                 const ChannelOptions& options,
                                                 absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  const auto name = ShmName(target.address);
  if (!name.ok()) return name.status();
  auto socket = ConnectAbstract(*name, target.listener_uid);
  if (!socket.ok()) return socket.status();
  auto answer = shm_internal::Await(socket->get(), until);
  if (!answer.ok()) return answer.status();
  if (!answer->status.ok()) return answer->status;
  if (!answer->rings.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(target.address, " gives no rings"));
  }
  auto end = ShmEnd::Create(*std::move(socket), std::move(answer->rings->to_server),
                            std::move(answer->rings->to_client));
  if (!end.ok()) return end.status();
  return std::make_unique<ShmClientChannel>(*std::move(end), handler, options);
}

}  // namespace

ClientEnd ShmClientEnd() { return {.transport = kShmTransport, .dial = &DialShm}; }

}  // namespace warpline
