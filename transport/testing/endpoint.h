// One end of a channel as tests see it: a queue of frames to send, a record of what arrived, and
// waits with a time limit. Also an acceptor that hands such ends out.
#ifndef WARPLINE_TRANSPORT_TESTING_ENDPOINT_H_
#define WARPLINE_TRANSPORT_TESTING_ENDPOINT_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"

namespace warpline::testing {

// Thread-safe. Outlives its channel; the handler made from it need not.
class Endpoint {
 public:
  // From now on Send() wakes `channel`; with nullptr no longer.
  void Attach(Channel* channel);

  void Send(uint32_t kind, std::string payload = "");
  // One wake for all.
  void SendAll(std::vector<Frame> frames);
  // Sends a frame of `size` bytes whenever the channel asks, without end.
  void SendForever(size_t size);
  void Wake();
  void Close(const absl::Status& status);
  void Admit();

  // While false, frames that arrive are refused with kLater.
  void SetTaking(bool taking);

  // Wait ten seconds at most and return what is there then.
  std::vector<Frame> AwaitFrames(size_t count);
  size_t AwaitOffers(size_t count);  // Calls of OnFrame(), refused ones included.
  std::optional<absl::Status> AwaitClosed();
  bool AwaitStarted();

  size_t received() const;
  size_t pulled() const;  // Frames that the channel took for sending.
  // Calls that the contract rules out: those after OnClosed(), destruction before it.
  std::string violations() const;

  // For the channel. The handler shares ownership of the end.
  static std::unique_ptr<SessionHandler> MakeHandler(std::shared_ptr<Endpoint> end);

 private:
  class Handler;

  template <typename Condition>
  bool Await(Condition condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  CondVar changed_;
  Channel* channel_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::deque<Frame> to_send_ ABSL_GUARDED_BY(mu_);
  std::vector<Frame> received_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
  std::string violations_ ABSL_GUARDED_BY(mu_);
  size_t forever_size_ ABSL_GUARDED_BY(mu_) = 0;
  size_t offers_ ABSL_GUARDED_BY(mu_) = 0;
  size_t pulled_ ABSL_GUARDED_BY(mu_) = 0;
  bool taking_ ABSL_GUARDED_BY(mu_) = true;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
};

// Hands out a new Endpoint per session, or the refusal that was set. Thread-safe.
class EndpointAcceptor : public Acceptor {
 public:
  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;

  void RefuseWith(const absl::Status& status);
  // The session that came `index`th, waiting for it ten seconds at most; nullptr without.
  std::shared_ptr<Endpoint> AwaitSession(size_t index = 0);
  // What sessions that come later start with.
  void SetTaking(bool taking);

 private:
  Mutex mu_;
  CondVar changed_;
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
  bool taking_ ABSL_GUARDED_BY(mu_) = true;
  std::vector<std::shared_ptr<Endpoint>> sessions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_ENDPOINT_H_
