#include "client_stub/core/testing/fake_session.h"

#include <algorithm>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {
namespace {

template <typename T>
void Add(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

CudaResult DefaultAnswer(const FakeSession::Sent& sent, std::string* fields) {
  switch (sent.id) {
    case CommandId::kKernelFind: {
      if (sent.tail != "kernel") return CudaResult::kNotFound;
      cmd::KernelFindReply reply;
      reply.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
      reply.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 16;
      reply.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = 1024;
      reply.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 47 << 10;
      Add(reply, fields);
      const uint32_t parameters[2][2] = {{0, 8}, {12, 4}};
      Add(parameters, fields);
      return CudaResult::kSuccess;
    }
    case CommandId::kConditionalCreate:
      Add(cmd::ConditionalCreateReply{FakeSession::kConditional}, fields);
      return CudaResult::kSuccess;
    case CommandId::kGlobalFind:
      if (sent.tail != "global") return CudaResult::kNotFound;
      Add(cmd::GlobalFindReply{FakeSession::kGlobalAddress, FakeSession::kGlobalBytes}, fields);
      return CudaResult::kSuccess;
    case CommandId::kVariableFind:
      if (sent.tail != "global") return CudaResult::kNotFound;
      Add(cmd::VariableFindReply{FakeSession::kGlobalAddress, FakeSession::kGlobalBytes, 0, 0},
          fields);
      return CudaResult::kSuccess;
    case CommandId::kMaxActiveBlocks:
      Add(cmd::MaxActiveBlocksReply{2, 0}, fields);
      return CudaResult::kSuccess;
    case CommandId::kEventElapsed:
      Add(cmd::EventElapsedReply{1.5f, 0}, fields);
      return CudaResult::kSuccess;
    case CommandId::kModuleKernels: {
      Add(cmd::ModuleKernelsReply{1, 1}, fields);
      fields->append("kernel", sizeof("kernel"));
      return CudaResult::kSuccess;
    }
    case CommandId::kModuleJitLog:
      Add(cmd::ModuleJitLogReply{2.5f, 4}, fields);
      fields->append("infoerror");
      return CudaResult::kSuccess;
    case CommandId::kClusterOccupancy:
      Add(cmd::ClusterOccupancyReply{8, 0}, fields);
      return CudaResult::kSuccess;
    case CommandId::kTensorMapEncode: {
      cmd::TensorMapEncode command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      cmd::TensorMapEncodeReply reply;
      reply.map[0] = command.address;
      reply.map[1] = command.rank;
      Add(reply, fields);
      return CudaResult::kSuccess;
    }
    case CommandId::kLinkComplete:
      Add(cmd::LinkCompleteReply{4}, fields);
      return CudaResult::kSuccess;
    case CommandId::kLinkRead:
      fields->append("code");
      return CudaResult::kSuccess;
    case CommandId::kLinkLog:
      Add(cmd::LinkLogReply{2.5f, 4}, fields);
      fields->append("infoerror");
      return CudaResult::kSuccess;
    case CommandId::kArrayCreate: {
      cmd::ArrayCreate command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      Add(cmd::ArrayCreateReply{command.width, command.height, command.depth, command.format,
                                command.channels, command.flags, command.levels},
          fields);
      return CudaResult::kSuccess;
    }
    case CommandId::kArrayPart:
      Add(cmd::ArrayPartReply{8, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0}, fields);
      return CudaResult::kSuccess;
    case CommandId::kTextureCreate:
      Add(cmd::TextureCreateReply{FakeSession::kFirstTexture}, fields);
      return CudaResult::kSuccess;
    case CommandId::kLimitGet:
    case CommandId::kLimitSet:
      return CudaResult::kUnsupportedLimit;
    default:
      return CudaResult::kSuccess;
  }
}

void Describe(uint32_t number, RemoteDevice* device) {
  device->name = "Fake";
  device->total_bytes = uint64_t{1} << 30;
  device->driver_version = 13000;
  device->greatest_stream_priority = -5;
  for (size_t i = 0; i < device->uuid.size(); ++i) device->uuid[i] = static_cast<uint8_t>(i);
  device->uuid[0] = static_cast<uint8_t>(number);
  device->pci_bus_id = "0000:1a:00.0";
  const auto set = [device](CUdevice_attribute which, int value) {
    device->attributes[which] = value;
  };
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536);
  set(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
  set(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff);
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048);
  set(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10);
  set(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024);
  set(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0x1a + static_cast<int>(number));
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
  set(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
  set(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
  set(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1);
  set(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1);
}

}  // namespace

FakeSession::FakeSession(uint32_t devices) : devices_(devices) {
  for (uint32_t i = 0; i < devices; ++i) Describe(i, &devices_[i]);
  if (devices < 2) return;
  devices_[0].peers = 1u << 1;
  devices_[1].peers = 1u << 0;
}

uint32_t FakeSession::DeviceOf(uint64_t va) const {
  return static_cast<uint32_t>(
      DeviceOfAddress(va, kArenaBase, kArenaBytes, static_cast<uint32_t>(devices_.size())));
}

uint64_t FakeSession::LeftOf(uint32_t device) const {
  return devices_[device].total_bytes - granted_bytes_[device];
}

void FakeSession::SetComplete(bool complete) {
  MutexLock lock(&mu_);
  complete_ = complete;
  complete_seq_ = last_seq_;
}

void FakeSession::SetFeatures(uint64_t features, bool same_host) {
  features_ = features;
  same_host_ = same_host;
}

void FakeSession::SetError(CudaResult error) {
  MutexLock lock(&mu_);
  error_ = error;
}

void FakeSession::SetDeferred(CudaResult error) {
  MutexLock lock(&mu_);
  deferred_ = error;
}

void FakeSession::SetAnswer(CommandId id, Answer answer) {
  MutexLock lock(&mu_);
  answers_[id] = std::move(answer);
}

std::vector<FakeSession::Sent> FakeSession::sent() const {
  MutexLock lock(&mu_);
  return sent_;
}

int FakeSession::Count(CommandId id) const {
  MutexLock lock(&mu_);
  return static_cast<int>(
      std::count_if(sent_.begin(), sent_.end(), [id](const Sent& sent) { return sent.id == id; }));
}

bool FakeSession::closed() const {
  MutexLock lock(&mu_);
  return closed_;
}

void FakeSession::Clear() {
  MutexLock lock(&mu_);
  sent_.clear();
  answers_.clear();
  error_ = CudaResult::kSuccess;
  deferred_ = CudaResult::kSuccess;
  complete_ = true;
}

CudaResult FakeSession::error() const {
  MutexLock lock(&mu_);
  return error_;
}

CudaResult FakeSession::TakeDeferred() {
  MutexLock lock(&mu_);
  return std::exchange(deferred_, CudaResult::kSuccess);
}

CudaResult FakeSession::CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool,
                                uint64_t* seq) {
  const cmd::CopyFromDevice command = {stream, src, bytes};
  *seq = Keep(CommandId::kCopyFromDevice, &command, sizeof(command), {});
  std::memset(dst, 0x5a, bytes);
  return CudaResult::kSuccess;
}

CudaResult FakeSession::CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                   const BoxExtent& extent, bool, uint64_t* seq) {
  const cmd::CopyBoxFromDevice command = {stream,       src.address,   src.pitch,   src.slice,
                                          extent.width, extent.height, extent.depth};
  *seq = Keep(CommandId::kCopyBoxFromDevice, &command, sizeof(command), {});
  ForEachRow(dst, extent, [](uint64_t address, uint64_t, uint64_t bytes) {
    std::memset(reinterpret_cast<void*>(address), 0x5a, bytes);
  });
  return CudaResult::kSuccess;
}

CudaResult FakeSession::CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool,
                                     uint64_t* seq) {
  *seq = Keep(CommandId::kCopyFromArray, &command, sizeof(command), {});
  ForEachRow(dst, {command.width, command.height, command.depth},
             [](uint64_t address, uint64_t, uint64_t bytes) {
               std::memset(reinterpret_cast<void*>(address), 0x5a, bytes);
             });
  return CudaResult::kSuccess;
}

void FakeSession::SetBeforeSend(std::function<void(CommandId)> before) {
  MutexLock lock(&mu_);
  before_send_ = std::move(before);
}

void FakeSession::SetHostDueCallback(std::function<void(uint64_t token)> callback) {
  MutexLock lock(&mu_);
  host_due_ = std::move(callback);
}

void FakeSession::HostDue(uint64_t token) {
  std::function<void(uint64_t)> callback;
  {
    MutexLock lock(&mu_);
    callback = host_due_;
  }
  if (callback) callback(token);
}

uint64_t FakeSession::last_seq() const {
  MutexLock lock(&mu_);
  return last_seq_;
}

bool FakeSession::Retired(uint64_t, uint64_t seq) const {
  MutexLock lock(&mu_);
  return complete_ || seq <= complete_seq_;
}

CudaResult FakeSession::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                      Grant* grant) {
  MutexLock lock(&mu_);
  const uint32_t device = DeviceOf(va);
  const uint64_t left = LeftOf(device);
  if (min_bytes > left) return CudaResult::kOutOfMemory;
  *grant = {va, std::min(want_bytes, left)};
  granted_bytes_[device] += grant->bytes;
  return CudaResult::kSuccess;
}

void FakeSession::ReturnMemory(const Grant& grant) {
  MutexLock lock(&mu_);
  granted_bytes_[DeviceOf(grant.va)] -= grant.bytes;
}

CudaResult FakeSession::CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                      uint64_t* created) {
  MutexLock lock(&mu_);
  ++handle_requests_;
  const uint32_t device = DeviceOfHandle(first);
  const uint64_t left = LeftOf(device);
  *created = std::min(count, left / bytes);
  if (*created == 0) return CudaResult::kOutOfMemory;
  for (uint64_t i = 0; i < *created; ++i) handles_[first + i] = bytes;
  granted_bytes_[device] += *created * bytes;
  return CudaResult::kSuccess;
}

void FakeSession::ReturnHandle(uint64_t handle) {
  MutexLock lock(&mu_);
  granted_bytes_[DeviceOfHandle(handle)] -= handles_[handle];
  handles_.erase(handle);
}

CudaResult FakeSession::Share(const SharedWhat& what, SharedMemory* shared) {
  constexpr uint64_t kChunk = 2u << 20;
  MutexLock lock(&mu_);
  shared->token = "token" + std::to_string(1'000'000'000 + offers_.size()) + "x";
  shared->va = what.va / kChunk * kChunk;
  shared->bytes = (what.va - shared->va + what.bytes + kChunk - 1) / kChunk * kChunk;
  if (what.handle != 0) shared->bytes = handles_[what.handle];
  const uint32_t device = what.handle != 0 ? DeviceOfHandle(what.handle) : DeviceOf(what.va);
  offers_[shared->token] = {shared->bytes, device};
  return CudaResult::kSuccess;
}

CudaResult FakeSession::OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto it = offers_.find(token);
  if (it == offers_.end()) return CudaResult::kInvalidValue;
  const Offer& offer = it->second;
  // Without a handle the call only asks whether there is such an offer.
  if (handle != 0 && (offer.bytes != bytes || offer.device != DeviceOfHandle(handle))) {
    return CudaResult::kInvalidValue;
  }
  if (handle != 0) handles_[handle] = 0;  // Charged where it was made.
  return CudaResult::kSuccess;
}

void FakeSession::SetUnmappedCallback(std::function<void(uint64_t token)> callback) {
  MutexLock lock(&mu_);
  unmapped_ = std::move(callback);
}

void FakeSession::ReportUnmapped() {
  std::vector<uint64_t> tokens;
  std::function<void(uint64_t)> callback;
  {
    MutexLock lock(&mu_);
    tokens.swap(unmapping_);
    callback = unmapped_;
  }
  for (const uint64_t token : tokens) callback(token);
}

size_t FakeSession::handles() const {
  MutexLock lock(&mu_);
  return handles_.size();
}

int FakeSession::handle_requests() const {
  MutexLock lock(&mu_);
  return handle_requests_;
}

void FakeSession::Close(absl::Duration) {
  MutexLock lock(&mu_);
  closed_ = true;
}

uint64_t FakeSession::Keep(CommandId id, const void* body, size_t body_bytes,
                           std::string_view tail) {
  MutexLock lock(&mu_);
  if (id == CommandId::kMemoryUnmap) {
    unmapping_.push_back(static_cast<const cmd::MemoryUnmap*>(body)->token);
  }
  sent_.push_back({id, std::string(static_cast<const char*>(body), body_bytes), std::string(tail)});
  return ++last_seq_;
}

uint64_t FakeSession::Append(CommandId id, const void* body, size_t body_bytes,
                             std::string_view tail) {
  if (error() != CudaResult::kSuccess) return 0;
  std::function<void(CommandId)> before;
  {
    MutexLock lock(&mu_);
    before = before_send_;
  }
  if (before) before(id);
  return Keep(id, body, body_bytes, tail);
}

CudaResult FakeSession::RoundTrip(WaitKind, CommandId id, const void* body, size_t body_bytes,
                                  std::string_view tail, std::string* fields) {
  if (error() != CudaResult::kSuccess) return error();
  Keep(id, body, body_bytes, tail);
  std::string unwanted;
  if (fields == nullptr) fields = &unwanted;
  Answer answer = DefaultAnswer;
  Sent sent;
  {
    MutexLock lock(&mu_);
    if (const auto it = answers_.find(id); it != answers_.end()) answer = it->second;
    sent = sent_.back();
  }
  return answer(sent, fields);
}

}  // namespace warpline::stub
