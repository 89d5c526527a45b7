#include "client_stub/core/testing/fake_commands.h"

#include <algorithm>
#include <utility>

#include "client_stub/core/base/cuda_api.h"
#include "common/cuda/sm_path.h"

namespace warpline::stub {
namespace {

template <typename T>
void Add(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The multiprocessors of a group.
uint32_t SizeOf(uint32_t least) { return (std::max(least, 1u) + 7) / 8 * 8; }

// How many multiprocessors are at the path, and what its last step leaves: groups are of eight or
// more each.
uint32_t Follow(std::string_view path, uint32_t* rest) {
  uint32_t count = FakeCommands::kMultiprocessors;
  *rest = 0;
  for (; path.size() >= sizeof(SmStep); path.remove_prefix(sizeof(SmStep))) {
    SmStep step;
    std::memcpy(&step, path.data(), sizeof(step));
    const uint32_t size = SizeOf(step.least);
    const uint32_t groups = std::min(step.groups, count / size);
    *rest = count - groups * size;
    uint32_t taken = step.rest != 0 ? *rest : 0;
    for (uint32_t group = 0; group < groups; ++group) taken += step.Takes(group) ? size : 0;
    count = taken;
  }
  return count;
}

CudaResult AnswerSplit(const FakeCommands::Sent& sent, std::string* fields) {
  cmd::SmSplit command;
  std::memcpy(&command, sent.body.data(), sizeof(command));
  uint32_t rest;
  const uint32_t whole = Follow(sent.tail, &rest);
  if (command.least > whole) return CudaResult::kInvalidResourceConfiguration;
  const uint32_t size = SizeOf(command.least);
  const uint32_t groups = std::min(command.groups, whole / size);
  Add(cmd::SmSplitReply{whole, 8, 8, groups}, fields);
  if (command.groups == 0 || command.groups == kCountSmGroups) return CudaResult::kSuccess;
  for (uint32_t group = 0; group < groups; ++group) Add(SmPart{size, 8, 8}, fields);
  const uint32_t left = whole - groups * size;
  Add(left == 0 ? SmPart{} : SmPart{left, 8, 8}, fields);
  return CudaResult::kSuccess;
}

CudaResult DefaultAnswer(const FakeCommands::Sent& sent, std::string* fields) {
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
      Add(cmd::ConditionalCreateReply{FakeCommands::kConditional}, fields);
      return CudaResult::kSuccess;
    case CommandId::kGlobalFind:
      if (sent.tail != "global") return CudaResult::kNotFound;
      Add(cmd::GlobalFindReply{FakeCommands::kGlobalAddress, FakeCommands::kGlobalBytes}, fields);
      return CudaResult::kSuccess;
    case CommandId::kVariableFind:
      if (sent.tail != "global") return CudaResult::kNotFound;
      Add(cmd::VariableFindReply{FakeCommands::kGlobalAddress, FakeCommands::kGlobalBytes, 0, 0},
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
    case CommandId::kSmSplit:
      return AnswerSplit(sent, fields);
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
      Add(cmd::TextureCreateReply{FakeCommands::kFirstTexture}, fields);
      return CudaResult::kSuccess;
    case CommandId::kVariableBlockFind: {
      cmd::VariableBlockFind command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      const uint64_t address = command.address;
      if (address - FakeCommands::kBlockAddress >= FakeCommands::kBlockBytes) {
        return CudaResult::kNotFound;
      }
      Add(cmd::VariableBlockFindReply{FakeCommands::kBlockAddress, FakeCommands::kBlockBytes, 0, 0},
          fields);
      return CudaResult::kSuccess;
    }
    case CommandId::kLinearTextureWidth:
      Add(cmd::LinearTextureWidthReply{FakeCommands::kTextureElements}, fields);
      return CudaResult::kSuccess;
    case CommandId::kLimitGet:
    case CommandId::kLimitSet:
      return CudaResult::kUnsupportedLimit;
    default:
      return CudaResult::kSuccess;
  }
}

}  // namespace

void FakeCommands::SetComplete(bool complete) {
  MutexLock lock(&mu_);
  complete_ = complete;
  complete_seq_ = last_seq_;
}

void FakeCommands::SetAnswer(CommandId id, Answer answer) {
  MutexLock lock(&mu_);
  answers_[id] = std::move(answer);
}

std::vector<FakeCommands::Sent> FakeCommands::sent() const {
  MutexLock lock(&mu_);
  return sent_;
}

int FakeCommands::Count(CommandId id) const {
  MutexLock lock(&mu_);
  return static_cast<int>(
      std::count_if(sent_.begin(), sent_.end(), [id](const Sent& sent) { return sent.id == id; }));
}

CudaResult FakeCommands::CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool,
                                 uint64_t* seq) {
  const cmd::CopyFromDevice command = {stream, src, bytes};
  *seq = Keep(CommandId::kCopyFromDevice, &command, sizeof(command), {});
  std::memset(dst, 0x5a, bytes);
  return CudaResult::kSuccess;
}

CudaResult FakeCommands::CopyStaged(uint64_t stream, void* dst, const void* staged, uint64_t src,
                                    uint64_t bytes, uint64_t* seq) {
  const cmd::CopyFromDevice command = {stream, src, 0};
  *seq = Keep(CommandId::kCopyFromDevice, &command, sizeof(command), {});
  std::memcpy(dst, staged, bytes);
  return CudaResult::kSuccess;
}

CudaResult FakeCommands::CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                    const BoxExtent& extent, bool, uint64_t* seq) {
  const cmd::CopyBoxFromDevice command = {stream,       src.address,   src.pitch,   src.slice,
                                          extent.width, extent.height, extent.depth};
  *seq = Keep(CommandId::kCopyBoxFromDevice, &command, sizeof(command), {});
  ForEachRow(dst, extent, [](uint64_t address, uint64_t, uint64_t bytes) {
    std::memset(reinterpret_cast<void*>(address), 0x5a, bytes);
  });
  return CudaResult::kSuccess;
}

CudaResult FakeCommands::CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool,
                                      uint64_t* seq) {
  *seq = Keep(CommandId::kCopyFromArray, &command, sizeof(command), {});
  ForEachRow(dst, {command.width, command.height, command.depth},
             [](uint64_t address, uint64_t, uint64_t bytes) {
               std::memset(reinterpret_cast<void*>(address), 0x5a, bytes);
             });
  return CudaResult::kSuccess;
}

void FakeCommands::SetBeforeSend(std::function<void(CommandId)> before) {
  MutexLock lock(&mu_);
  before_send_ = std::move(before);
}

void FakeCommands::SetOnCopy(std::function<void(const cmd::CopyOnDevice&)> copy) {
  MutexLock lock(&mu_);
  on_copy_ = std::move(copy);
}

uint64_t FakeCommands::last_seq() const {
  MutexLock lock(&mu_);
  return last_seq_;
}

CudaResult FakeCommands::WatchOrCall(WaitKind kind, uint64_t stream, uint64_t seq, CommandId id,
                                     const void* body, size_t body_bytes) {
  if (Retired(stream, seq)) return CudaResult::kSuccess;
  return RoundTrip(kind, id, body, body_bytes, {}, nullptr);
}

bool FakeCommands::Retired(uint64_t, uint64_t seq) const {
  MutexLock lock(&mu_);
  return complete_ || seq <= complete_seq_;
}

uint64_t FakeCommands::Keep(CommandId id, const void* body, size_t body_bytes,
                            std::string_view tail) {
  MutexLock lock(&mu_);
  if (id == CommandId::kMemoryUnmap) {
    unmapping_.push_back(static_cast<const cmd::MemoryUnmap*>(body)->token);
  }
  sent_.push_back({id, std::string(static_cast<const char*>(body), body_bytes), std::string(tail)});
  return ++last_seq_;
}

uint64_t FakeCommands::Append(CommandId id, const void* body, size_t body_bytes,
                              std::string_view tail) {
  if (status_->error() != CudaResult::kSuccess) return 0;
  std::function<void(CommandId)> before;
  std::function<void(const cmd::CopyOnDevice&)> on_copy;
  {
    MutexLock lock(&mu_);
    before = before_send_;
    on_copy = on_copy_;
  }
  if (before) before(id);
  if (on_copy && id == CommandId::kCopyOnDevice) {
    cmd::CopyOnDevice command;
    std::memcpy(&command, body, sizeof(command));
    on_copy(command);
  }
  return Keep(id, body, body_bytes, tail);
}

CudaResult FakeCommands::RoundTrip(WaitKind, CommandId id, const void* body, size_t body_bytes,
                                   std::string_view tail, std::string* fields) {
  if (status_->error() != CudaResult::kSuccess) return status_->error();
  Keep(id, body, body_bytes, tail);
  std::string unwanted;
  if (fields == nullptr) fields = &unwanted;
  Answer answer = DefaultAnswer;
  {
    MutexLock lock(&mu_);
    if (const auto it = answers_.find(id); it != answers_.end()) answer = it->second;
  }
  return answer({id, std::string(static_cast<const char*>(body), body_bytes), std::string(tail)},
                fields);
}

void FakeCommands::ClearCommands() {
  MutexLock lock(&mu_);
  sent_.clear();
  answers_.clear();
  before_send_ = nullptr;
  on_copy_ = nullptr;
  complete_ = true;
}

std::vector<uint64_t> FakeCommands::TakeUnmapping() {
  MutexLock lock(&mu_);
  return std::exchange(unmapping_, {});
}

}  // namespace warpline::stub
