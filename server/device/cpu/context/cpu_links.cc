#include "server/device/cpu/context/cpu_links.h"

#include <memory>

#include "server/device/cpu/modules/cpu_module.h"

namespace warpline::cpu {
namespace {

// Values of CUjitInputType.
constexpr uint32_t kPtx = 1, kFatbinary = 2;

}  // namespace

// One input needs no linking: it is the code. There is no linker for several.
CudaResult CpuLinks::CreateLink(absl::Span<const device::JitOption>, device::LinkId* link) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  MutexLock lock(&mu_);
  const uint64_t id = next_id_++;
  links_[id];
  *link = device::LinkId{id};
  return CudaResult::kSuccess;
}

CudaResult CpuLinks::AddToLink(device::LinkId link, uint32_t type, std::string_view data,
                               const std::string&, absl::Span<const device::JitOption>,
                               device::JitLog* log) {
  const auto refuse = [log](const char* why) {
    log->errors = why;
    return CudaResult::kNotSupported;
  };
  if (type != kPtx && type != kFatbinary) return refuse("the CPU device links PTX only");
  std::shared_ptr<CpuModule> checked;
  CudaResult result = CpuModule::Load(data, &memory_, &checked, &log->errors);
  if (type == kPtx && result == CudaResult::kInvalidImage) result = CudaResult::kInvalidPtx;
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  const auto it = links_.find(static_cast<uint64_t>(link));
  if (it == links_.end()) return CudaResult::kInvalidHandle;
  if (!it->second.empty()) return refuse("the CPU device links no more than one input");
  it->second = std::string(data);
  return CudaResult::kSuccess;
}

CudaResult CpuLinks::CompleteLink(device::LinkId link, std::string* code, device::JitLog*) {
  MutexLock lock(&mu_);
  const auto it = links_.find(static_cast<uint64_t>(link));
  if (it == links_.end()) return CudaResult::kInvalidHandle;
  *code = it->second;
  return CudaResult::kSuccess;
}

void CpuLinks::DestroyLink(device::LinkId link) {
  MutexLock lock(&mu_);
  links_.erase(static_cast<uint64_t>(link));
}

}  // namespace warpline::cpu
