#include "server/relay/bulk/bulk_connection.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/session.pb.h"
#include "transport/loop_thread.h"

namespace warpline::relay {
namespace {

// A request for memory is a few numbers.
constexpr uint32_t kMostRequest = 1024;
// A worker that is being replaced takes so long to have the memory.
constexpr absl::Duration kMemoryPatience = absl::Seconds(90);

}  // namespace

absl::StatusOr<std::unique_ptr<BulkConnection>> BulkConnection::Start(
    std::unique_ptr<BulkSocket> socket, uint32_t slot, const Host* host) {
  std::unique_ptr<BulkConnection> connection(new BulkConnection(std::move(socket), slot, host));
  auto thread = TryStartLoopThread("wl-relay-bulk", [self = connection.get()] { self->Run(); });
  if (!thread.ok()) return thread.status();
  connection->thread_ = *std::move(thread);
  return connection;
}

BulkConnection::~BulkConnection() {
  ended_.store(true);
  host_->memory->Wake();
  socket_->Shut();
  if (thread_.joinable()) thread_.join();
}

void BulkConnection::Run() {
  BulkFrameHeader frame;
  while (socket_->Receive(&frame, sizeof(frame)).ok() && OnFrame(frame).ok()) {
  }
  // The client goes another way.
  socket_->Shut();
}

absl::Status BulkConnection::OnFrame(const BulkFrameHeader& frame) {
  switch (frame.kind) {
    case kBulkMemory:
      return OnMemory(frame.bytes);
    case kBulkPut:
      return OnPut(frame.bytes);
    case kBulkGet:
      return OnGet(frame.bytes);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("frame kind ", frame.kind, " on a bulk connection"));
  }
}

absl::Status BulkConnection::OnMemory(uint32_t bytes) {
  if (bytes > kMostRequest) return absl::InvalidArgumentError("malformed request for memory");
  std::string payload(bytes, '\0');
  const absl::Status received = socket_->Receive(payload.data(), payload.size());
  if (!received.ok()) return received;
  warpline_internal::HostMemoryRequest request;
  if (!request.ParseFromString(payload) || request.board() || request.give_back()) {
    return absl::InvalidArgumentError("malformed request for memory");
  }
  const auto answer =
      host_->memory->Get(slot_, request.va(), request.bytes(), kMemoryPatience, ended_);
  if (!answer.ok()) return answer.status();
  return socket_->Send(kBulkMemoryDone, answer->SerializeAsString(), {});
}

absl::Status BulkConnection::OnPut(uint32_t bytes) {
  BulkHeader header;
  if (bytes < sizeof(header)) return absl::InvalidArgumentError("malformed put");
  const absl::Status begun = socket_->Receive(&header, sizeof(header));
  if (!begun.ok()) return begun;
  if (bytes - sizeof(header) != header.bytes || header.bytes == 0 || header.bytes > kMaxBulkPiece) {
    return absl::InvalidArgumentError("malformed put");
  }
  char* const to = host_->memory->Reach(slot_, header.va, header.bytes);
  if (to == nullptr) return absl::InvalidArgumentError("a put outside the slot's memory");
  const absl::Status received = socket_->Receive(to, header.bytes);
  if (!received.ok()) return received;
  host_->moved(header.bytes);
  const BulkTakenBody taken = {++puts_};
  return socket_->Send(kBulkTaken,
                       std::string_view(reinterpret_cast<const char*>(&taken), sizeof(taken)), {});
}

absl::Status BulkConnection::OnGet(uint32_t bytes) {
  BulkHeader header;
  if (bytes != sizeof(header)) return absl::InvalidArgumentError("malformed get");
  const absl::Status received = socket_->Receive(&header, sizeof(header));
  if (!received.ok()) return received;
  if (header.bytes == 0 || header.bytes > kMaxBulkPiece) {
    return absl::InvalidArgumentError("malformed get");
  }
  const char* const from = host_->memory->Reach(slot_, header.va, header.bytes);
  if (from == nullptr) return absl::InvalidArgumentError("a get outside the slot's memory");
  const absl::Status sent = socket_->Send(kBulkBytes, {}, {from, header.bytes});
  if (sent.ok()) host_->moved(header.bytes);
  return sent;
}

}  // namespace warpline::relay
