#include "server/gpu_server/memory/host_memory_port.h"

#include <stddef.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/cuda/cuda_result.h"
#include "common/packets/packet_socket.h"

namespace warpline::server {
namespace {

using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

constexpr int kBacklog = 64;
// The others become ready again in the next turn of the loop.
constexpr int kConnectionsATurn = 16;

absl::StatusOr<UniqueFd> ListenAt(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (!socket.valid() || name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return absl::ResourceExhaustedError("no socket for host memory");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen for requests for host memory: ", std::strerror(errno)));
  }
  return socket;
}

}  // namespace

std::string HostMemoryPort::NewName() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return "";
  return absl::StrFormat("warpline-host-%d-%016x", getpid(), number);
}

bool IsFreeName(const std::string& name) { return ListenAt(name).ok(); }

absl::Status HostMemoryPort::Start(const std::string& name) {
  auto socket = ListenAt(name);
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  watch_ = loop_->Watch(socket_.get(), [this] {
    control_loop.AssertOnLoop();
    OnConnect();
  });
  return watch_ != 0 ? absl::OkStatus() : absl::ResourceExhaustedError("cannot watch a socket");
}

void HostMemoryPort::Stop() {
  loop_->Remove(watch_);
  watch_ = 0;
  while (!connections_.empty()) Drop(connections_.begin()->second);
  socket_ = UniqueFd();
}

void HostMemoryPort::OnConnect() {
  for (int i = 0; i < kConnectionsATurn; ++i) {
    UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    AddStranger(std::move(socket));
  }
}

void HostMemoryPort::AddStranger(UniqueFd socket) {
  ucred user = {};
  socklen_t size = sizeof(user);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return;
  auto connection = std::make_shared<Connection>();
  connection->id = ++last_id_;
  connection->socket = std::move(socket);
  connection->user = user.uid;
  const std::weak_ptr<Connection> weak = connection;
  connection->watch = loop_->Watch(connection->socket.get(), [this, weak] {
    control_loop.AssertOnLoop();
    if (const auto held = weak.lock()) OnPacket(held);
  });
  if (connection->watch == 0) return;
  connection->timer = loop_->RunAfter(limits_.patience, [this, weak] {
    control_loop.AssertOnLoop();
    if (const auto held = weak.lock()) Drop(held);
  });
  connections_[connection->id] = connection;
  const auto crowding = strangers_.Add(connection->id, absl::StrCat(user.uid));
  if (crowding.has_value()) Drop(connections_.at(*crowding));
  if (strangers_.size() <= limits_.most_strange) return;
  if (const auto oldest = strangers_.TakeOldest()) Drop(connections_.at(*oldest));
}

bool HostMemoryPort::Admit(Connection* connection, const HostMemoryRequest& request) {
  const uint64_t session = request.session();
  if (connection->session != 0 && connection->session != session) return false;
  if (session == 0 || !sessions_->HasSecret(session, request.secret())) return false;
  if (connection->session == session) return true;
  connection->session = session;
  loop_->Remove(std::exchange(connection->timer, 0));
  strangers_.Remove(connection->id);
  std::list<StrangerBook::Id>& all = of_session_[session];
  all.push_back(connection->id);
  if (all.size() > limits_.most_of_session) Drop(connections_.at(all.front()));
  return true;
}

bool HostMemoryPort::Answer(const Connection& connection, const HostSegments::Result& result) {
  HostMemoryAnswer answer;
  answer.set_error(static_cast<int>(result.result));
  answer.set_message(result.why);
  const bool with_fd = result.result == CudaResult::kSuccess && result.fd >= 0;
  return SendPacket(connection.socket.get(), answer, {&result.fd, with_fd ? size_t{1} : size_t{0}})
      .ok();
}

void HostMemoryPort::OnPacket(const std::shared_ptr<Connection>& connection) {
  if (connection->keeps) return OnPacketAfterEnd(connection);
  HostMemoryRequest request;
  std::vector<UniqueFd> memory;
  const absl::Status received = ReceivePacket(connection->socket.get(), &request, &memory);
  if (absl::IsNotFound(received)) return;
  // Clients wait for an answer before they send more.
  if (!received.ok() || connection->busy || !Admit(connection.get(), request)) {
    return Drop(connection);
  }
  if (request.kept_size() > 0) {
    if (!TakeKept(connection.get(), request, std::move(memory))) Drop(connection);
    return;
  }
  if (request.outlives() && !MayKeep(connection.get())) {
    if (!Answer(*connection, {CudaResult::kNotSupported, -1, {}})) Drop(connection);
    return;
  }
  connection->busy = true;
  std::weak_ptr<Connection> weak = connection;
  sessions_->OnHostMemory(request, [this, weak](const HostSegments::Result& result) {
    control_loop.AssertOnLoop();
    const auto held = weak.lock();
    if (held == nullptr || !connections_.contains(held->id)) return;
    held->busy = false;
    if (!Answer(*held, result)) Drop(held);
  });
}

bool HostMemoryPort::TakeKept(Connection* connection, const HostMemoryRequest& request,
                              std::vector<UniqueFd> memory) {
  const bool outlives = absl::c_any_of(
      request.kept(), [](const warpline_internal::KeptSegment& one) { return one.outlives(); });
  if (outlives && !MayKeep(connection)) {
    return Answer(*connection, {CudaResult::kNotSupported, -1,
                                "its user has too much memory that outlives sessions"});
  }
  return Answer(*connection, sessions_->OnKeptMemory(request, std::move(memory)));
}

bool HostMemoryPort::GiveToClient(uint64_t session,
                                  const std::vector<HostSegments::Shared>& memory) {
  const auto found = of_session_.find(session);
  if (found == of_session_.end()) return memory.empty();
  const int socket = connections_.at(found->second.back())->socket.get();
  for (size_t i = 0; i < memory.size();) {
    HostMemoryAnswer answer;
    std::vector<int> fds;
    for (; i < memory.size() && fds.size() < kMaxPacketFds; ++i) {
      warpline_internal::KeptSegment* const kept = answer.add_kept();
      kept->set_va(memory[i].va);
      kept->set_bytes(memory[i].bytes);
      kept->set_outlives(memory[i].outlives);
      fds.push_back(memory[i].fd);
    }
    if (!SendPacket(socket, answer, fds).ok()) return false;
  }
  return true;
}

bool HostMemoryPort::MayKeep(Connection* connection) {
  if (connection->may_keep) return true;
  size_t& keeping = keeping_[connection->user];
  if (keeping >= limits_.most_kept_of_user) return false;
  ++keeping;
  connection->may_keep = true;
  return true;
}

void HostMemoryPort::OnPacketAfterEnd(const std::shared_ptr<Connection>& connection) {
  HostMemoryRequest request;
  const absl::Status received = ReceivePacket(connection->socket.get(), &request, nullptr);
  if (absl::IsNotFound(received)) return;
  const bool goes_on =
      received.ok() && request.session() == connection->session &&
      Answer(*connection,
             {request.give_back() && connection->kept.GiveBack(request.va(), request.bytes())
                  ? CudaResult::kSuccess
                  : CudaResult::kDeinitialized,
              -1,
              {}});
  if (goes_on && !connection->kept.empty()) return;
  connection->kept.EmptyAll();
  Drop(connection);
}

void HostMemoryPort::Drop(const std::shared_ptr<Connection>& held) {
  // What is passed may be the table's own, which goes with its entry.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<Connection> connection = held;
  loop_->Remove(connection->watch);
  loop_->Remove(std::exchange(connection->timer, 0));
  strangers_.Remove(connection->id);
  if (const auto found = of_session_.find(connection->session); found != of_session_.end()) {
    found->second.remove(connection->id);
    if (found->second.empty()) of_session_.erase(found);
  }
  if (connection->may_keep && --keeping_[connection->user] == 0) keeping_.erase(connection->user);
  connections_.erase(connection->id);
}

void HostMemoryPort::Forget(uint64_t session, KeptSegments kept) {
  std::list<StrangerBook::Id> all;
  if (const auto found = of_session_.find(session); found != of_session_.end()) {
    all.swap(found->second);
    of_session_.erase(found);
  }
  const auto keeper = std::find_if(all.rbegin(), all.rend(), [this](StrangerBook::Id id) {
    control_loop.AssertOnLoop();
    return connections_.at(id)->may_keep;
  });
  if (!kept.empty() && keeper != all.rend()) {
    const std::shared_ptr<Connection>& connection = connections_.at(*keeper);
    connection->keeps = true;
    connection->kept = std::move(kept);
    kept = KeptSegments();
    all.erase(std::next(keeper).base());
  }
  for (const StrangerBook::Id id : all) Drop(connections_.at(id));
  kept.EmptyAll();
}

}  // namespace warpline::server
