#include "server/gpu_server/children/keepers/keeper_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "proto/frames.h"
#include "server/jail/profiles.h"

namespace warpline::server {

using warpline_internal::FromKeeper;
using warpline_internal::ToKeeper;

absl::Status KeeperClient::Start() {
  Stop();
  ToKeeper request;
  request.mutable_open()->set_backend(options_.backend);
  request.mutable_open()->set_ordinal(options_.ordinal);
  if (options_.jailer != nullptr) {
    auto cell = options_.jailer->NewCell(jail::kKeeperProfile, {options_.ordinal});
    if (!cell.ok()) return cell.status();
    cell_ = *std::move(cell);
    *request.mutable_open()->mutable_jail() = cell_->plan();
  }
  auto process = options_.launcher->Launch(ProcessRole::kKeeper, options_.program, &socket_);
  if (!process.ok()) return process.status();
  process_ = std::move(*process);
  const absl::Status confined = cell_ == nullptr ? absl::OkStatus() : cell_->Confine(pid());
  if (!confined.ok()) {
    Stop();
    return confined;
  }
  const timeval timeout = absl::ToTimeval(options_.answer_timeout);
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  const auto reply = Ask(request, {}, nullptr);
  if (!reply.ok()) {
    Stop();
    return reply.status();
  }
  if (cell_ != nullptr) cell_->OnClosed(reply->jail());
  device_ = reply->device();
  if (!options_.uuid.empty()) device_.set_uuid(options_.uuid);
  device_count_ = reply->device_count();
  note_ = reply->message();
  if (!reply->backend().empty()) options_.backend = reply->backend();
  return absl::OkStatus();
}

std::string KeeperClient::Stop() {
  socket_.Reset(-1);
  if (process_ == nullptr) return "";
  process_->Kill();
  const std::string how = process_->Reap().Describe();
  process_.reset();
  cell_.reset();
  return how;
}

absl::StatusOr<FromKeeper> KeeperClient::Ask(const ToKeeper& request, absl::Span<const int> sent,
                                             std::vector<UniqueFd>* received) {
  if (!running()) return absl::UnavailableError("the keeper is not running");
  FromKeeper reply;
  absl::Status status = SendPacket(socket_.get(), request, sent);
  if (status.ok()) status = ReceivePacket(socket_.get(), &reply, received);
  if (!status.ok()) {
    // After a timeout its next answer would be taken for that of another request.
    return absl::UnavailableError(
        absl::StrCat("the keeper failed (", Stop(), "): ", std::string(status.message())));
  }
  if (reply.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(reply.code()), reply.message());
  }
  return reply;
}

absl::StatusOr<std::vector<UniqueFd>> KeeperClient::Create(uint64_t bytes, size_t count) {
  ToKeeper request;
  request.mutable_create()->set_bytes(bytes);
  request.mutable_create()->set_count(static_cast<uint32_t>(count));
  std::vector<UniqueFd> fds;
  const auto reply = Ask(request, {}, &fds);
  if (!reply.ok()) return reply.status();
  if (reply->created() != fds.size() || fds.size() > count) {
    Stop();
    return absl::UnavailableError("the keeper answered with the wrong number of chunks");
  }
  return fds;
}

absl::StatusOr<std::optional<uint64_t>> KeeperClient::FreeBytes() {
  ToKeeper request;
  request.mutable_free();
  const auto reply = Ask(request, {}, nullptr);
  if (!reply.ok()) return reply.status();
  if (!reply->has_free_bytes()) return std::optional<uint64_t>();
  return std::optional<uint64_t>(reply->free_bytes());
}

absl::Status KeeperClient::AddHostBlock(uint32_t number, int fd, uint64_t bytes) {
  ToKeeper request;
  request.mutable_add()->set_number(number);
  request.mutable_add()->set_bytes(bytes);
  return Ask(request, {&fd, 1}, nullptr).status();
}

absl::StatusOr<std::vector<bool>> KeeperClient::FindUsed(const warpline_internal::FindUsed& find,
                                                         absl::Span<const int> fds) {
  ToKeeper request;
  *request.mutable_find() = find;
  const auto reply = Ask(request, fds, nullptr);
  if (!reply.ok()) return reply.status();
  uint64_t granules = 0;
  for (const uint64_t bytes : find.chunk_bytes()) granules += bytes / kChunkGranularity;
  if (reply->used().size() != (granules + 7) / 8) {
    Stop();
    return absl::UnavailableError("the keeper answered for the wrong number of chunks");
  }
  std::vector<bool> used(granules);
  for (uint64_t i = 0; i < granules; ++i) used[i] = (reply->used()[i / 8] >> i % 8 & 1) != 0;
  return used;
}

absl::Status KeeperClient::Move(const warpline_internal::MoveChunks& move,
                                absl::Span<const int> fds) {
  ToKeeper request;
  *request.mutable_move() = move;
  return Ask(request, fds, nullptr).status();
}

}  // namespace warpline::server
