#include "server/gpu_server/upgrade/parent_link.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "common/packets/packet_socket.h"
#include "common/version.h"
#include "server/gpu_server/upgrade/server_parent.h"
#include "server/hostlink/process/child_process.h"
#include "transport/loop_thread.h"

namespace warpline::server {

using warpline_internal::ToParent;
using warpline_internal::ToServer;
using warpline_internal::UpgradeOrder;
using warpline_internal::UpgradeReply;
using warpline_internal::UpgradeRequest;

namespace {

absl::Status Gone() { return absl::UnavailableError("the server's parent is gone"); }

}  // namespace

std::unique_ptr<ParentLink> ParentLink::OfThisProcess() {
  if (getenv(kServerParentVariable) == nullptr) return nullptr;
  // It is not for this process's children.
  unsetenv(kServerParentVariable);
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(kChildSocketFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return nullptr;
  fcntl(kChildSocketFd, F_SETFD, FD_CLOEXEC);
  return std::make_unique<ParentLink>(UniqueFd(kChildSocketFd));
}

ParentLink::~ParentLink() {
  if (!listener_.joinable()) return;
  shutdown(socket_.get(), SHUT_RDWR);
  listener_.join();
}

absl::Status ParentLink::Join(std::function<void(const UpgradeOrder&)> pass_on) {
  pass_on_ = std::move(pass_on);
  while (true) {
    ToServer message;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(socket_.get(), &message, &fds);
    if (!received.ok()) return received;
    if (message.has_kept()) {
      things_.push_back({message.kept().name(), message.kept().text(), std::move(fds)});
    }
    if (!message.has_start()) continue;
    start_ = message.start();
    break;
  }
  listener_ = StartLoopThread("parent", [this] { Listen(); });
  return absl::OkStatus();
}

std::vector<PassedThing> ParentLink::Take(const std::string& name) {
  std::vector<PassedThing> taken, rest;
  for (PassedThing& thing : things_) {
    (thing.name == name ? taken : rest).push_back(std::move(thing));
  }
  things_ = std::move(rest);
  return taken;
}

std::string ParentLink::TextOf(const std::string& name) const {
  for (const PassedThing& thing : things_) {
    if (thing.name == name) return thing.text;
  }
  return "";
}

void ParentLink::Listen() {
  while (true) {
    ToServer message;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(socket_.get(), &message, &fds);
    if (received.ok()) {
      OnMessage(message);
    } else if (!absl::IsResourceExhausted(received)) {
      break;
    }
  }
  MutexLock lock(&mu_);
  gone_ = true;
  changed_.NotifyAll();
}

void ParentLink::OnMessage(const ToServer& message) {
  std::optional<UpgradeOrder> order;
  {
    MutexLock lock(&mu_);
    switch (message.kind_case()) {
      case ToServer::kPassOn:
        order = message.pass_on();
        number_ = order->number();
        passing_on_ = true;
        state_.Clear();
        state_.set_state(UpgradeReply::RESTING);
        break;
      case ToServer::kRefused:
        if (passing_on_) {
          kept_all_ = absl::ResourceExhaustedError(message.refused().why());
        } else if (message.refused().number() == number_) {
          state_.set_state(UpgradeReply::REFUSED);
          state_.set_why(message.refused().why());
        }
        break;
      case ToServer::kCommitted: {
        committed_ = true;
        const auto& report = message.committed().report();
        number_ = report.number();
        state_.set_state(report.rolled_back() ? UpgradeReply::ROLLED_BACK : UpgradeReply::DONE);
        state_.set_why(report.why());
        state_.set_from_version(report.from_version());
        state_.set_to_version(report.to_version());
        state_.set_sessions(report.sessions());
        state_.set_pause_ms(report.pause_ms());
        break;
      }
      case ToServer::kKeptAll:
        kept_all_ = absl::OkStatus();
        break;
      default:
        return;
    }
    changed_.NotifyAll();
  }
  if (order.has_value()) pass_on_(*order);
}

absl::Status ParentLink::Send(const ToParent& message, absl::Span<const int> fds) {
  return SendPacket(socket_.get(), message, fds);
}

absl::Status ParentLink::Ready(uint32_t sessions) {
  ToParent message;
  message.mutable_ready()->set_version(kVersion);
  message.mutable_ready()->set_sessions(sessions);
  if (const absl::Status sent = Send(message, {}); !sent.ok()) return sent;
  MutexLock lock(&mu_);
  while (!committed_ && !gone_) changed_.Wait(&mu_);
  return committed_ ? absl::OkStatus() : Gone();
}

void ParentLink::ReadyInCheck() {
  ToParent message;
  message.mutable_ready()->set_version(kVersion);
  (void)Send(message, {});
}

void ParentLink::Fail(const absl::Status& why) {
  ToParent message;
  message.mutable_failed()->set_why(std::string(why.message()));
  (void)Send(message, {});
}

absl::Status ParentLink::Keep(const std::string& name, const std::string& text,
                              absl::Span<const int> fds) {
  ToParent message;
  message.mutable_keep()->set_name(name);
  message.mutable_keep()->set_text(text);
  const absl::Status sent = Send(message, fds);
  MutexLock lock(&mu_);
  things_kept_ += sent.ok() ? 1 : 0;
  return sent;
}

absl::Status ParentLink::PassedOn() {
  ToParent message;
  {
    MutexLock lock(&mu_);
    message.mutable_passed_on()->set_things(things_kept_);
    kept_all_.reset();
  }
  if (const absl::Status sent = Send(message, {}); !sent.ok()) return sent;
  MutexLock lock(&mu_);
  while (!kept_all_.has_value() && !gone_) changed_.Wait(&mu_);
  return kept_all_.value_or(Gone());
}

void ParentLink::Stay(const absl::Status& why) {
  ToParent message;
  {
    MutexLock lock(&mu_);
    state_.set_state(UpgradeReply::REFUSED);
    state_.set_why(std::string(why.message()));
    message.mutable_stay()->set_number(number_);
    message.mutable_stay()->set_why(std::string(why.message()));
    passing_on_ = false;
    things_kept_ = 0;
  }
  (void)Send(message, {});
}

UpgradeReply ParentLink::Answer(const UpgradeRequest& request) {
  bool begins = false;
  UpgradeReply reply;
  {
    MutexLock lock(&mu_);
    const bool busy =
        state_.state() == UpgradeReply::CHECKING || state_.state() == UpgradeReply::RESTING;
    if (request.number() == number_ && !number_.empty()) {
      reply = state_;
    } else if (request.only_ask()) {
      reply.set_state(UpgradeReply::UNKNOWN);
    } else if (busy) {
      reply.set_state(UpgradeReply::REFUSED);
      reply.set_why("an upgrade is under way already");
    } else {
      begins = true;
      number_ = request.number();
      state_.Clear();
      state_.set_state(UpgradeReply::CHECKING);
      reply = state_;
    }
  }
  if (!begins) return reply;
  ToParent message;
  message.mutable_ask()->set_number(request.number());
  message.mutable_ask()->set_program(request.program());
  message.mutable_ask()->set_force(request.force());
  if (const absl::Status sent = Send(message, {}); !sent.ok()) {
    MutexLock lock(&mu_);
    state_.set_state(UpgradeReply::REFUSED);
    state_.set_why(std::string(sent.message()));
  }
  return reply;
}

}  // namespace warpline::server
