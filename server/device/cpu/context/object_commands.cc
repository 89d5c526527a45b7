// Arrays and links: the rest of CpuContext.
#include <string>
#include <utility>

#include "server/device/cpu/context/cpu_context.h"
#include "server/device/cpu/memory/copy_bytes.h"

namespace warpline::cpu {
namespace {

using device::ArrayEnd;

// CUjitInputType.
constexpr uint32_t kPtx = 1, kFatbinary = 2;

}  // namespace

CudaResult CpuContext::CreateArray(device::ArrayShape* shape, device::ArrayId* array) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Create(shape, array);
}

// What is queued keeps what it uses.
CudaResult CpuContext::DestroyArray(device::ArrayId array) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Destroy(array);
}

CudaResult CpuContext::ArrayLevel(device::ArrayId array, uint32_t level, device::ArrayShape* shape,
                                  device::ArrayId* part) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Level(array, level, shape, part);
}

// No format that it has has planes.
CudaResult CpuContext::ArrayPlane(device::ArrayId, uint32_t, device::ArrayShape*,
                                  device::ArrayId*) {
  return CudaResult::kInvalidValue;
}

bool CpuContext::FindEnd(const ArrayEnd& end, const BoxExtent& extent, FoundEnd* found) {
  uint64_t bytes;
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      found->array = arrays_.Find(end.array);
      return found->array != nullptr &&
             found->array->Find(end.x, end.y, end.z, extent, &found->place);
    case ArrayEnd::Kind::kDevice:
      found->on_device = true;
      found->place = end.place;
      return BoxSpan(end.place, extent, &bytes) && memory_.Contains(end.place.address, bytes);
    case ArrayEnd::Kind::kHost:
      found->place = {reinterpret_cast<uint64_t>(end.host), extent.width,
                      extent.width * extent.height};
      return BoxSpan(found->place, extent, &bytes);
  }
  return false;
}

CudaResult CpuContext::CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                                 device::StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  FoundEnd target, source;
  if (!FindEnd(to, extent, &target) || !FindEnd(from, extent, &source)) {
    return CudaResult::kInvalidValue;
  }
  return streams_.Submit(
      NumberOf(stream), StreamSet::When::kNowIfPossible, [this, target, source, extent] {
        for (const FoundEnd* end : {&target, &source}) {
          uint64_t bytes;
          // It may have been unmapped meanwhile.
          if (end->on_device && !(BoxSpan(end->place, extent, &bytes) &&
                                  memory_.Contains(end->place.address, bytes))) {
            return CudaResult::kIllegalAddress;
          }
        }
        for (uint64_t z = 0; z < extent.depth; ++z) {
          for (uint64_t y = 0; y < extent.height; ++y) {
            const auto row = [&](const BoxPlace& place) {
              return reinterpret_cast<void*>(place.address + z * place.slice + y * place.pitch);
            };
            CopyBytes(row(target.place), row(source.place), extent.width);
          }
        }
        return CudaResult::kSuccess;
      });
}

// One input needs no linking: it is the code. There is no linker for several.
CudaResult CpuContext::CreateLink(absl::Span<const device::JitOption>, device::LinkId* link) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  MutexLock lock(&mu_);
  const uint64_t id = next_id_++;
  links_[id];
  *link = device::LinkId{id};
  return CudaResult::kSuccess;
}

CudaResult CpuContext::AddToLink(device::LinkId link, uint32_t type, std::string_view data,
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

CudaResult CpuContext::CompleteLink(device::LinkId link, std::string* code, device::JitLog*) {
  MutexLock lock(&mu_);
  const auto it = links_.find(static_cast<uint64_t>(link));
  if (it == links_.end()) return CudaResult::kInvalidHandle;
  *code = it->second;
  return CudaResult::kSuccess;
}

void CpuContext::DestroyLink(device::LinkId link) {
  MutexLock lock(&mu_);
  links_.erase(static_cast<uint64_t>(link));
}

}  // namespace warpline::cpu
