#include "server/gpu_server/children/workers/packet_backlog.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

absl::StatusOr<std::vector<UniqueFd>> Duplicate(absl::Span<const int> fds) {
  std::vector<UniqueFd> duplicates;
  duplicates.reserve(fds.size());
  for (const int fd : fds) {
    duplicates.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (duplicates.back().valid()) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot duplicate a descriptor: ", strerror(errno)));
  }
  return duplicates;
}

}  // namespace

absl::Status PacketBacklog::Push(warpline_internal::ToWorker message, absl::Span<const int> fds) {
  if (waiting_.empty()) {
    const auto sent = send_(message, fds);
    if (!sent.ok()) return sent.status();
    if (*sent) return absl::OkStatus();
  }
  size_t& count = of_session_[message.session()];
  if (count >= kMostOfSession) {
    return absl::ResourceExhaustedError("too much waits to be sent to the worker");
  }
  auto duplicates = Duplicate(fds);
  if (!duplicates.ok()) {
    if (count == 0) of_session_.erase(message.session());
    return duplicates.status();
  }
  ++count;
  waiting_.push_back({std::move(message), *std::move(duplicates)});
  return absl::OkStatus();
}

absl::StatusOr<size_t> PacketBacklog::Flush() {
  size_t count = 0;
  for (; !waiting_.empty(); ++count) {
    const Packet& packet = waiting_.front();
    std::vector<int> fds;
    fds.reserve(packet.fds.size());
    for (const UniqueFd& fd : packet.fds) fds.push_back(fd.get());
    const auto sent = send_(packet.message, fds);
    if (absl::IsResourceExhausted(sent.status())) break;
    if (!sent.ok()) return sent.status();
    if (!*sent) break;
    const auto found = of_session_.find(packet.message.session());
    if (--found->second == 0) of_session_.erase(found);
    waiting_.pop_front();
  }
  return count;
}

bool PacketBacklog::Drop(uint64_t session) {
  bool opening = false;
  std::erase_if(waiting_, [&](const Packet& packet) {
    if (packet.message.session() != session) return false;
    opening = opening || packet.message.has_open();
    return true;
  });
  of_session_.erase(session);
  return opening;
}

void PacketBacklog::Clear() {
  waiting_.clear();
  of_session_.clear();
}

}  // namespace warpline::server
