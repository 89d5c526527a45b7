#include "transport/testing/endpoint.h"

#include <utility>

#include "absl/time/clock.h"

namespace warpline::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

class Endpoint::Handler : public SessionHandler {
 public:
  explicit Handler(std::shared_ptr<Endpoint> end) : end_(std::move(end)) {}
  ~Handler() override {
    MutexLock lock(&end_->mu_);
    end_->channel_ = nullptr;
    if (end_->started_ && !end_->closed_.has_value()) {
      end_->violations_ += "destroyed before OnClosed; ";
    }
  }

  void Started(Channel* channel) override {
    MutexLock lock(&end_->mu_);
    end_->started_ = true;
    end_->channel_ = channel;
    end_->changed_.NotifyAll();
  }

  bool NextFrame(Frame* frame) override {
    MutexLock lock(&end_->mu_);
    Check("NextFrame");
    if (!end_->to_send_.empty()) {
      *frame = std::move(end_->to_send_.front());
      end_->to_send_.pop_front();
    } else if (end_->forever_size_ != 0) {
      frame->kind = 9;
      frame->payload.assign(end_->forever_size_, 'f');
    } else {
      return false;
    }
    ++end_->pulled_;
    return true;
  }

  warpline::Accept OnFrame(Frame* frame) override {
    MutexLock lock(&end_->mu_);
    Check("OnFrame");
    ++end_->offers_;
    end_->changed_.NotifyAll();
    if (!end_->taking_) return warpline::Accept::kLater;
    end_->received_.push_back(std::move(*frame));
    return warpline::Accept::kTaken;
  }

  void OnClosed(const absl::Status& status) override {
    MutexLock lock(&end_->mu_);
    Check("OnClosed");
    end_->channel_ = nullptr;
    end_->closed_ = status;
    end_->changed_.NotifyAll();
  }

 private:
  void Check(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(end_->mu_) {
    if (end_->closed_.has_value()) end_->violations_.append(call).append(" after OnClosed; ");
  }

  const std::shared_ptr<Endpoint> end_;
};

std::unique_ptr<SessionHandler> Endpoint::MakeHandler(std::shared_ptr<Endpoint> end) {
  return std::make_unique<Handler>(std::move(end));
}

void Endpoint::Attach(Channel* channel) {
  MutexLock lock(&mu_);
  started_ = true;
  if (!closed_.has_value()) channel_ = channel;
  // What was appended before had no channel to wake.
  if (channel_ != nullptr) channel_->Wake();
}

void Endpoint::Send(uint32_t kind, std::string payload) {
  MutexLock lock(&mu_);
  to_send_.push_back({kind, std::move(payload)});
  if (channel_ != nullptr) channel_->Wake();
}

void Endpoint::SendAll(std::vector<Frame> frames) {
  MutexLock lock(&mu_);
  for (Frame& frame : frames) to_send_.push_back(std::move(frame));
  if (channel_ != nullptr) channel_->Wake();
}

void Endpoint::SendForever(size_t size) {
  MutexLock lock(&mu_);
  forever_size_ = size;
  if (channel_ != nullptr) channel_->Wake();
}

void Endpoint::Wake() {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Wake();
}

void Endpoint::Admit() {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Admit();
}

void Endpoint::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Close(status);
}

void Endpoint::SetTaking(bool taking) {
  MutexLock lock(&mu_);
  taking_ = taking;
  if (taking && channel_ != nullptr) channel_->Wake();
}

template <typename Condition>
bool Endpoint::Await(Condition condition) {
  const absl::Time until = absl::Now() + kPatience;
  while (!condition()) {
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitWithTimeout(&mu_, left);
  }
  return true;
}

std::vector<Frame> Endpoint::AwaitFrames(size_t count) {
  MutexLock lock(&mu_);
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return received_.size() >= count; });
  return received_;
}

size_t Endpoint::AwaitOffers(size_t count) {
  MutexLock lock(&mu_);
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return offers_ >= count; });
  return offers_;
}

std::optional<absl::Status> Endpoint::AwaitClosed() {
  MutexLock lock(&mu_);
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return closed_.has_value(); });
  return closed_;
}

bool Endpoint::AwaitStarted() {
  MutexLock lock(&mu_);
  return Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return started_; });
}

size_t Endpoint::received() const {
  MutexLock lock(&mu_);
  return received_.size();
}

size_t Endpoint::pulled() const {
  MutexLock lock(&mu_);
  return pulled_;
}

std::string Endpoint::violations() const {
  MutexLock lock(&mu_);
  return violations_;
}

std::unique_ptr<SessionHandler> EndpointAcceptor::Accept(const std::string&,
                                                         absl::Status* refusal) {
  MutexLock lock(&mu_);
  if (!refusal_.ok()) {
    *refusal = refusal_;
    return nullptr;
  }
  auto end = std::make_shared<Endpoint>();
  end->SetTaking(taking_);
  sessions_.push_back(end);
  changed_.NotifyAll();
  return Endpoint::MakeHandler(std::move(end));
}

void EndpointAcceptor::RefuseWith(const absl::Status& status) {
  MutexLock lock(&mu_);
  refusal_ = status;
}

void EndpointAcceptor::SetTaking(bool taking) {
  MutexLock lock(&mu_);
  taking_ = taking;
}

std::shared_ptr<Endpoint> EndpointAcceptor::AwaitSession(size_t index) {
  std::shared_ptr<Endpoint> end;
  {
    MutexLock lock(&mu_);
    const absl::Time until = absl::Now() + kPatience;
    while (sessions_.size() <= index) {
      const absl::Duration left = until - absl::Now();
      if (left <= absl::ZeroDuration()) return nullptr;
      changed_.WaitWithTimeout(&mu_, left);
    }
    end = sessions_[index];
  }
  return end->AwaitStarted() ? end : nullptr;
}

}  // namespace warpline::testing
