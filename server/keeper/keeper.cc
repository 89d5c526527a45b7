#include "server/keeper/keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "proto/frames.h"
#include "server/hostlink/backends/backend_names.h"
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

// Returns true if each of these chunks has its descriptor and a size that chunks have.
bool Match(const google::protobuf::RepeatedField<uint64_t>& sizes,
           const std::vector<UniqueFd>& fds) {
  return !fds.empty() && static_cast<size_t>(sizes.size()) == fds.size() &&
         std::all_of(sizes.begin(), sizes.end(), ValidChunkSize);
}

bool LiesWithin(uint64_t offset, uint64_t bytes, uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

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

absl::Status Keeper::AddBlock(const warpline_internal::AddHostBlock& request,
                              const std::vector<UniqueFd>& fds) {
  if (chunks_ == nullptr) return absl::FailedPreconditionError("the keeper is not open");
  if (fds.size() != 1 || request.bytes() == 0 || blocks_.contains(request.number())) {
    return absl::InvalidArgumentError("a host block out of bounds");
  }
  auto block = MappedMemory::Map(fds.front().get(), request.bytes());
  if (!block.ok()) return block.status();
  const absl::Status added = chunks_->AddHost(block->data(), block->bytes());
  if (added.ok()) blocks_.emplace(request.number(), *std::move(block));
  return added;
}

absl::Status Keeper::Find(const warpline_internal::FindUsed& request,
                          const std::vector<UniqueFd>& fds, FromKeeper* reply) {
  if (chunks_ == nullptr) return absl::FailedPreconditionError("the keeper is not open");
  if (!Match(request.chunk_bytes(), fds)) {
    return absl::InvalidArgumentError("chunks out of bounds");
  }
  std::string& bits = *reply->mutable_used();
  size_t count = 0;
  for (size_t i = 0; i < fds.size(); ++i) {
    const auto used = chunks_->FindUsed(fds[i].get(), request.chunk_bytes(static_cast<int>(i)));
    if (!used.ok()) return used.status();
    for (const bool one : *used) {
      if (count % 8 == 0) bits.push_back(0);
      if (one) bits.back() = static_cast<char>(bits.back() | 1 << count % 8);
      ++count;
    }
  }
  return absl::OkStatus();
}

absl::Status Keeper::Move(const warpline_internal::MoveChunks& request,
                          const std::vector<UniqueFd>& fds) {
  if (chunks_ == nullptr) return absl::FailedPreconditionError("the keeper is not open");
  if (!Match(request.chunk_bytes(), fds)) {
    return absl::InvalidArgumentError("chunks out of bounds");
  }
  std::vector<std::vector<device::ChunkSource::Part>> parts(fds.size());
  for (const auto& part : request.parts()) {
    const auto block = blocks_.find(part.block());
    if (part.chunk() >= fds.size() || block == blocks_.end() || part.bytes() == 0 ||
        !LiesWithin(part.offset(), part.bytes(),
                    request.chunk_bytes(static_cast<int>(part.chunk()))) ||
        !LiesWithin(part.block_offset(), part.bytes(), block->second.bytes())) {
      return absl::InvalidArgumentError("a moved part out of bounds");
    }
    parts[part.chunk()].push_back(
        {part.offset(), block->second.data() + part.block_offset(), part.bytes()});
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    if (parts[i].empty()) continue;
    const uint64_t bytes = request.chunk_bytes(static_cast<int>(i));
    const absl::Status moved = request.out() ? chunks_->CopyOut(fds[i].get(), bytes, parts[i])
                                             : chunks_->CopyIn(fds[i].get(), bytes, parts[i]);
    if (!moved.ok()) return moved;
  }
  return absl::OkStatus();
}

absl::Status Keeper::Serve(int fd) {
  while (true) {
    warpline_internal::ToKeeper request;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(fd, &request, &fds);
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
    } else if (request.has_add()) {
      status = AddBlock(request.add(), fds);
    } else if (request.has_find()) {
      status = Find(request.find(), fds, &reply);
    } else if (request.has_move()) {
      status = Move(request.move(), fds);
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
