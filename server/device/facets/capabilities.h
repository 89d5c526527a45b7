// What a backend can do besides what every backend does, and the one refusal of what it lacks.
//
// A part of a context says in `kGives` which capabilities come with it. The capabilities of the
// context are put together from those (ContextOf), so that it cannot promise what no part gives.
//
//   if (!context->capabilities().Has(Capability::kGraphs)) return Lacks(Capability::kGraphs);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_CAPABILITIES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_CAPABILITIES_H_

#include <cstdint>
#include <string>

#include "common/cuda/cuda_result.h"
#include "common/enum_set.h"

namespace warpline::device {

enum class Capability : uint32_t {
  kLinks = 1u << 0,           // Joins several pieces of code into one.
  kArrays = 1u << 1,          // Arrays in the device's own layout
  kTextures = 1u << 2,        // Texture and surface objects
  kTensorMaps = 1u << 3,      // Tensor maps
  kGraphs = 1u << 4,          // Launches a graph as one, conditional nodes included.
  kClusters = 1u << 5,        // Clusters of blocks
  kVariableBlocks = 1u << 6,  // Says where modules' variables will lie (Modules::TakeBlock()).
  kPartitions = 1u << 7,      // Streams that have some of the multiprocessors
  kLibraries = 1u << 8,       // Calls functions of libraries (Libraries).
};

using Capabilities = EnumSet<Capability>;

// Names such as "links, arrays", or "none".
std::string NamesOf(Capabilities capabilities);

// The answer of a part that lacks `what`: kNotSupported.
CudaResult Lacks(Capability what);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_CAPABILITIES_H_
