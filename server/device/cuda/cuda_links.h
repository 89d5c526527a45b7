// The driver's linker.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_LINKS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/links.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaLinks : public virtual Links, protected CudaPart {
 public:
  explicit CudaLinks(CudaMember* member) : CudaPart(*member) {}

  CudaResult CreateLink(absl::Span<const JitOption> options, LinkId* id) override;
  CudaResult AddToLink(LinkId id, uint32_t type, std::string_view data, const std::string& name,
                       absl::Span<const JitOption> options, JitLog* log) override;
  CudaResult CompleteLink(LinkId id, std::string* code, JitLog* log) override;
  void DestroyLink(LinkId id) override;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_LINKS_H_
