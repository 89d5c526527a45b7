// A context's linker.
//
//   LinkId link;
//   std::string code;
//   JitLog log;
//   links->CreateLink({}, &link);
//   links->AddToLink(link, type, data, "a.o", {}, &log);
//   links->CompleteLink(link, &code, &log);
//   links->DestroyLink(link);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_LINKS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Only one thread at a time may use a link. A log holds what was said since the last call.
class Links {
 public:
  static constexpr Capabilities kGives = Capability::kLinks;

  virtual ~Links() = default;

  virtual CudaResult CreateLink(absl::Span<const JitOption> options, LinkId* link) = 0;
  // `type` is a CUjitInputType; `data` is not kept. `name` is for the log.
  virtual CudaResult AddToLink(LinkId link, uint32_t type, std::string_view data,
                               const std::string& name, absl::Span<const JitOption> options,
                               JitLog* log) = 0;
  virtual CudaResult CompleteLink(LinkId link, std::string* code, JitLog* log) = 0;
  virtual void DestroyLink(LinkId link) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_LINKS_H_
