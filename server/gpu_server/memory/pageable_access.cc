#include "server/gpu_server/memory/pageable_access.h"

#include "absl/strings/str_cat.h"
#include "common/log/log.h"

namespace warpline::server {
namespace {

constexpr uint32_t kPageableMemoryAccess = 88;  // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS

// The driver's switch has no effect where hardware shares page tables.
constexpr char kSwitch[] = "(options nvidia-uvm uvm_disable_hmm=1 ends it, but not on Grace)";

}  // namespace

bool ReachesPageableMemory(const warpline_internal::DeviceInfo& device) {
  for (const auto& attribute : device.attributes()) {
    if (attribute.id() == kPageableMemoryAccess) return attribute.value() != 0;
  }
  return false;
}

absl::Status CheckPageableAccess(const warpline_internal::DeviceInfo& device, int ordinal,
                                 PageableAccess policy) {
  if (!ReachesPageableMemory(device)) return absl::OkStatus();
  if (policy == PageableAccess::kRefuse) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it reaches pageable memory, which --pageable_access=refuse forbids ", kSwitch));
  }
  LogWarning("pageable memory is within reach gpu=", ordinal,
             ": a kernel can read and write all memory of its worker ", kSwitch,
             "; --pageable_access=refuse for a server that does not start then");
  return absl::OkStatus();
}

}  // namespace warpline::server
