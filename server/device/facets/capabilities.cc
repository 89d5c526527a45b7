#include "server/device/facets/capabilities.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::device {
namespace {

constexpr std::pair<Capability, const char*> kNames[] = {
    {Capability::kLinks, "links"},
    {Capability::kArrays, "arrays"},
    {Capability::kTextures, "textures"},
    {Capability::kTensorMaps, "tensor maps"},
    {Capability::kGraphs, "graphs"},
    {Capability::kClusters, "clusters"},
    {Capability::kVariableBlocks, "variable blocks"},
    {Capability::kPartitions, "partitions"},
    {Capability::kLibraries, "libraries"},
};

}  // namespace

std::string NamesOf(Capabilities capabilities) {
  std::string names;
  for (const auto& [capability, name] : kNames) {
    if (capabilities.Has(capability)) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "none" : names;
}

CudaResult Lacks(Capability) { return CudaResult::kNotSupported; }

}  // namespace warpline::device
