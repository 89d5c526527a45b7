#include "server/gpu_server/children/relays/relay_process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/packets/packet_socket.h"
#include "common/text.h"
#include "proto/frames.h"
#include "server/jail/profiles.h"
#include "transport/unix_connect.h"

namespace warpline::server {
namespace {

// A relay's address in text, and what it says of itself.
constexpr size_t kMostAddressBytes = 4096;
constexpr size_t kMostErrorBytes = 512;
// What it may say that it has moved since it said so last.
constexpr uint64_t kMostMoved = uint64_t{1} << 40;
// The longest that UCX may take to say which transports it has.
constexpr timeval kCheckTakes = {.tv_sec = 60, .tv_usec = 0};

// The jail of a relay over UCX. Devices of RDMA are in it only where the operator named a transport
// that is not TCP.
const char* UcxProfile(const RelayOptions& options) {
  return options.ucx_transports.IsOnlyTcp() ? jail::kRelayProfile : jail::kRdmaRelayProfile;
}

}  // namespace

absl::Status CheckUcxTransports(const RelayOptions& options) {
  UniqueFd socket;
  std::unique_ptr<jail::Cell> cell;
  warpline_internal::ToRelay order;
  warpline_internal::CheckUcx& check = *order.mutable_check_ucx();
  check.set_ucx_transports(options.ucx_transports.ToString());
  if (options.jailer != nullptr) {
    auto made = options.jailer->NewCell(UcxProfile(options), {});
    if (!made.ok()) return made.status();
    cell = *std::move(made);
    *check.mutable_jail() = cell->plan();
  }
  const auto process = options.launcher->Launch(ProcessRole::kRelay, options.program, &socket);
  if (!process.ok()) return process.status();
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kCheckTakes, sizeof(kCheckTakes));
  warpline_internal::FromRelay answer;
  absl::Status status = cell != nullptr ? cell->Confine((*process)->pid()) : absl::OkStatus();
  if (status.ok()) status = SendPacket(socket.get(), order, {});
  if (status.ok()) status = ReceivePacket(socket.get(), &answer, nullptr);
  if (absl::IsNotFound(status)) return absl::UnavailableError("UCX does not answer");
  if (!status.ok()) return status;
  const warpline_internal::UcxChecked& checked = answer.ucx_checked();
  if (cell != nullptr && checked.error().empty()) cell->OnClosed(checked.jail());
  if (checked.error().empty() && answer.has_ucx_checked()) return absl::OkStatus();
  return absl::UnavailableError(Quoted(checked.error().substr(0, kMostErrorBytes)));
}

RelayProcess::Spawned RelayProcess::Spawn(const RelayOptions& options, bool ucx) {
  Spawned spawned = {nullptr, UniqueFd(), UniqueFd(), nullptr};
  auto server = ConnectAbstract(options.server_name, geteuid());
  if (!server.ok()) {
    spawned.process = server.status();
    return spawned;
  }
  spawned.server = *std::move(server);
  if (options.jailer != nullptr) {
    auto cell = options.jailer->NewCell(ucx ? UcxProfile(options) : jail::kRelayProfile, {});
    if (!cell.ok()) {
      spawned.process = cell.status();
      return spawned;
    }
    spawned.cell = *std::move(cell);
  }
  spawned.process = options.launcher->Launch(ProcessRole::kRelay, options.program, &spawned.socket);
  if (!spawned.process.ok() || spawned.cell == nullptr) return spawned;
  const absl::Status confined = spawned.cell->Confine((*spawned.process)->pid());
  if (!confined.ok()) spawned.process = confined;
  return spawned;
}

void RelayProcess::Start(const RelayOptions& options, const std::string& peer,
                         const std::string& secret, bool ucx) {
  warpline_internal::PrepareRelay prepare;
  prepare.set_peer(peer);
  prepare.set_first_port(options.ports.first);
  prepare.set_last_port(options.ports.last);
  prepare.set_secret(secret);
  prepare.set_ucx(ucx);
  prepare.set_ucx_transports(options.ucx_transports.ToString());
  spawner_->Post([self = shared_from_this(), options, prepare] {
    // Posted functions must be copyable, and processes are not.
    auto spawned = std::make_shared<Spawned>(Spawn(options, prepare.ucx()));
    self->control_->Post([self, spawned, prepare] {
      control_loop.AssertOnLoop();
      self->OnSpawned(std::move(*spawned), prepare);
    });
  });
}

void RelayProcess::OnSpawned(Spawned spawned, warpline_internal::PrepareRelay prepare) {
  cell_ = std::move(spawned.cell);
  if (!spawned.process.ok()) return Over(std::string(spawned.process.status().message()));
  process_ = *std::move(spawned.process);
  socket_ = std::move(spawned.socket);
  if (events_ == nullptr) return End();
  // A relay that does not read must not hold up the loop.
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  socket_watch_ = control_->Watch(socket_.get(), [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->OnPacket();
  });
  if (socket_watch_ == 0) return Over("cannot be watched");
  warpline_internal::ToRelay order;
  *order.mutable_prepare() = std::move(prepare);
  if (cell_ != nullptr) {
    warpline_internal::JailPlan& plan = *order.mutable_prepare()->mutable_jail();
    plan = cell_->plan();
    plan.set_first_port(order.prepare().first_port());
    plan.set_last_port(order.prepare().last_port());
  }
  const int server = spawned.server.get();
  const absl::Status sent = SendPacket(socket_.get(), order, {&server, 1});
  if (!sent.ok()) Over(std::string(sent.message()));
}

void RelayProcess::OnPacket() {
  const auto self = shared_from_this();
  if (events_ == nullptr) return;
  warpline_internal::FromRelay message;
  const absl::Status received = ReceivePacket(socket_.get(), &message, nullptr);
  if (absl::IsNotFound(received)) return;
  if (!received.ok()) return Over(connected_ ? "" : "it has ended before its client came");
  if (message.has_prepared() && !ready_) return OnPrepared(message.prepared());
  if (message.has_connected() && ready_ && !connected_) {
    connected_ = true;
    return events_->OnRelayConnected();
  }
  if (ready_ && TrySpend()) {
    if (message.has_memory()) return OnMemory(message.memory());
    if (message.has_moved() && message.moved().bytes() <= kMostMoved) {
      return events_->OnRelayMoved(message.moved().bytes());
    }
  }
  Over("the relay says what is not due");
}

bool RelayProcess::TrySpend() {
  const absl::Time now = SteadyNow();
  words_left_ = std::min(kMostWords,
                         words_left_ + kWordsPerSecond * absl::ToDoubleSeconds(now - words_since_));
  words_since_ = now;
  if (words_left_ < 1) return false;
  words_left_ -= 1;
  return true;
}

void RelayProcess::OnMemory(const warpline_internal::RelayMemory& memory) {
  if (memory.slot() >= kMaxBulkConnections || !asking_.insert(memory.slot()).second) {
    return Over("the relay says what is not due");
  }
  events_->OnRelayMemory(memory);
}

void RelayProcess::AnswerMemory(uint32_t slot, const warpline_internal::HostMemoryAnswer& answer,
                                int fd) {
  if (events_ == nullptr) return;
  asking_.erase(slot);
  warpline_internal::ToRelay message;
  message.mutable_memory()->set_slot(slot);
  *message.mutable_memory()->mutable_answer() = answer;
  const absl::Span<const int> fds =
      fd >= 0 ? absl::Span<const int>(&fd, 1) : absl::Span<const int>();
  if (!SendPacket(socket_.get(), message, fds).ok()) Over("the relay does not listen");
}

void RelayProcess::OnPrepared(const warpline_internal::RelayPrepared& prepared) {
  if (!prepared.error().empty()) {
    return Over(Quoted(prepared.error().substr(0, kMostErrorBytes)));
  }
  if (cell_ != nullptr) cell_->OnClosed(prepared.jail());
  if (prepared.address().empty() || prepared.address().size() > kMostAddressBytes ||
      prepared.bulk_endpoint().size() > kMostAddressBytes) {
    return Over("the relay has no address");
  }
  ready_ = true;
  events_->OnRelayReady(prepared.address(), prepared.bulk_endpoint());
}

void RelayProcess::Over(const std::string& why) {
  RelayEvents* const events = events_;
  End();
  if (events != nullptr) events->OnRelayOver(why);
}

void RelayProcess::End() {
  events_ = nullptr;
  StopWatching();
  if (process_ == nullptr) return;
  process_->Kill();
  // Its end may take a moment, which the loop does not wait for. The cell stays until then.
  spawner_->Post([process = std::shared_ptr<RunningProcess>(std::move(process_)),
                  cell = std::shared_ptr<jail::Cell>(std::move(cell_))] { process->Reap(); });
}

void RelayProcess::StopWatching() {
  if (socket_watch_ != 0) control_->Remove(std::exchange(socket_watch_, 0));
}

}  // namespace warpline::server
