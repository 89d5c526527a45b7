#include "server/keeper/keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"
#include "server/hostlink/backends/backend_names.h"
#include "server/hostlink/process/packet_socket.h"
#include "server/jail/jail.h"

namespace warpline {
namespace {

void FillDeviceInfo(const device::DeviceInfo& from, warpline_internal::DeviceInfo* to) {
  to->set_name(from.name);
  to->set_uuid(std::string(from.uuid.begin(), from.uuid.end()));
  to->set_total_bytes(from.total_bytes);
  to->set_driver_version(from.driver_version);
  to->set_least_stream_priority(from.least_stream_priority);
  to->set_greatest_stream_priority(from.greatest_stream_priority);
  to->set_pci_bus_id(from.pci_bus_id);
  for (const auto& [id, value] : from.attributes) {
    auto* attribute = to->add_attributes();
    attribute->set_id(id);
    attribute->set_value(value);
  }
}

bool ValidChunkSize(uint64_t bytes) { return bytes > 0 && bytes % kChunkGranularity == 0; }

}  // namespace

absl::Status Keeper::Open(const warpline_internal::OpenKeeper& request, FromKeeper* reply) {
  if (chunks_ != nullptr) return absl::FailedPreconditionError("the keeper is open already");
  // "auto" is resolved here, so that the server learns which backend its workers have to use.
  std::vector<std::string> names = {request.backend()};
  if (request.backend() == "auto") {
    names.clear();
    for (const BackendName& backend : BackendNames()) names.emplace_back(backend.name);
  }
  absl::StatusOr<std::unique_ptr<device::Backend>> backend = absl::UnknownError("");
  for (const std::string& name : names) {
    backend = open_backend_(name);
    if (backend.ok()) {
      reply->set_backend(name);
      break;
    }
    if (names.size() > 1 && UsesNvidiaDriver(name)) {
      // This tells the operator why the server runs on the processor.
      reply->set_message(std::string(backend.status().message()));
    }
  }
  if (!backend.ok()) return backend.status();
  const auto& bus_ids = request.jail().pci_bus_ids();
  const auto place = (*backend)->Find(request.ordinal(), bus_ids.empty() ? "" : bus_ids[0]);
  if (!place.ok()) return place.status();
  const int ordinal = *place;
  reply->set_device_count((*backend)->DeviceCount());
  if (ordinal < 0 || ordinal >= reply->device_count()) {
    return absl::NotFoundError(
        absl::StrCat("device ", ordinal, " of ", reply->device_count(), " does not exist"));
  }
  auto info = (*backend)->Info(ordinal);
  if (!info.ok()) return info.status();
  auto chunks = (*backend)->OpenChunkSource(ordinal);
  if (!chunks.ok()) return chunks.status();
  FillDeviceInfo(*info, reply->mutable_device());
  backend_ = std::move(*backend);
  chunks_ = std::move(*chunks);
  return absl::OkStatus();
}

absl::Status Keeper::OpenJailed(const warpline_internal::OpenKeeper& request, FromKeeper* reply) {
  if (!request.has_jail()) return Open(request, reply);
  jail::Jail jail(request.jail());
  absl::Status status = jail.CloseBeforeDriver();
  if (status.ok()) status = Open(request, reply);
  if (status.ok()) status = jail.CloseBeforeTenants();
  *reply->mutable_jail() = jail.report();
  return status;
}

absl::Status Keeper::Create(const warpline_internal::CreateChunks& request, FromKeeper* reply,
                            std::vector<UniqueFd>* created) {
  if (chunks_ == nullptr) return absl::FailedPreconditionError("the keeper is not open");
  if (!ValidChunkSize(request.bytes()) || request.count() == 0 || request.count() > kMaxPacketFds) {
    return absl::InvalidArgumentError("chunks out of bounds");
  }
  for (uint32_t i = 0; i < request.count(); ++i) {
    auto chunk = chunks_->CreateChunk(request.bytes());
    if (!chunk.ok()) {
      if (absl::IsResourceExhausted(chunk.status())) break;
      return chunk.status();
    }
    // The driver does not promise that new memory holds no data of another process.
    const absl::Status scrubbed = chunks_->ScrubChunk(chunk->get(), request.bytes());
    if (!scrubbed.ok()) return scrubbed;
    created->push_back(std::move(*chunk));
  }
  reply->set_created(static_cast<uint32_t>(created->size()));
  return absl::OkStatus();
}

absl::Status Keeper::ReadFree(FromKeeper* reply) {
  if (chunks_ == nullptr) return absl::FailedPreconditionError("the keeper is not open");
  const auto free = chunks_->FreeBytes();
  if (!free.ok()) return free.status();
  if (free->has_value()) reply->set_free_bytes(**free);
  return absl::OkStatus();
}

absl::Status Keeper::Serve(int fd) {
  while (true) {
    warpline_internal::ToKeeper request;
    const absl::Status received = ReceivePacket(fd, &request, nullptr);
    if (absl::IsUnavailable(received)) return absl::OkStatus();
    if (!received.ok()) return received;
    FromKeeper reply;
    std::vector<UniqueFd> created;
    absl::Status status = absl::InvalidArgumentError("unknown request");
    if (request.has_open()) {
      status = OpenJailed(request.open(), &reply);
    } else if (request.has_create()) {
      status = Create(request.create(), &reply, &created);
    } else if (request.has_free()) {
      status = ReadFree(&reply);
    }
    if (!status.ok()) {
      reply.set_code(static_cast<int>(status.code()));
      reply.set_message(std::string(status.message()));
      created.clear();
    }
    std::vector<int> numbers;
    for (const UniqueFd& chunk : created) numbers.push_back(chunk.get());
    const absl::Status sent = SendPacket(fd, reply, numbers);
    if (!sent.ok()) return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
  }
}

}  // namespace warpline
