// Parts of contexts for what a backend lacks: they refuse by name what is asked of them.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_LACKING_H_
#define WARPLINE_SERVER_DEVICE_FACETS_LACKING_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "server/device/facets/arrays.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/graphs.h"
#include "server/device/facets/libraries.h"
#include "server/device/facets/links.h"
#include "server/device/facets/partitions.h"
#include "server/device/facets/textures.h"

namespace warpline::device {

class NoTextures : public virtual Textures {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoTextures(const void* /*state*/) {}

  CudaResult CreateTexture(const Texture&, uint64_t*) override {
    return Lacks(Capability::kTextures);
  }
  CudaResult DestroyTexture(uint64_t, bool) override { return Lacks(Capability::kTextures); }
  CudaResult LinearTextureWidth(uint32_t, uint32_t, uint64_t*) override {
    return Lacks(Capability::kTextures);
  }
  CudaResult EncodeTensorMap(const TensorMap&, TensorMapBytes*) override {
    return Lacks(Capability::kTensorMaps);
  }
};

class NoLinks : public virtual Links {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoLinks(const void* /*state*/) {}

  CudaResult CreateLink(absl::Span<const JitOption>, LinkId*) override { return Refuse(); }
  CudaResult AddToLink(LinkId, uint32_t, std::string_view, const std::string&,
                       absl::Span<const JitOption>, JitLog*) override {
    return Refuse();
  }
  CudaResult CompleteLink(LinkId, std::string*, JitLog*) override { return Refuse(); }
  void DestroyLink(LinkId) override {}

 private:
  static CudaResult Refuse() { return Lacks(Capability::kLinks); }
};

class NoArrays : public virtual Arrays {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoArrays(const void* /*state*/) {}

  CudaResult CreateArray(ArrayShape*, ArrayId*) override { return Refuse(); }
  CudaResult DestroyArray(ArrayId) override { return Refuse(); }
  CudaResult ArrayLevel(ArrayId, uint32_t, ArrayShape*, ArrayId*) override { return Refuse(); }
  CudaResult ArrayPlane(ArrayId, uint32_t, ArrayShape*, ArrayId*) override { return Refuse(); }
  CudaResult CopyArray(const ArrayEnd&, const ArrayEnd&, const BoxExtent&, StreamId) override {
    return Refuse();
  }

 private:
  static CudaResult Refuse() { return Lacks(Capability::kArrays); }
};

class NoGraphs : public virtual Graphs {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoGraphs(const void* /*state*/) {}

  CudaResult CreateGraph(absl::Span<const GraphNode>, GraphId*) override { return Refuse(); }
  CudaResult LaunchGraph(GraphId, StreamId) override { return Refuse(); }
  CudaResult DestroyGraph(GraphId) override { return Refuse(); }
  CudaResult CreateFrame(FrameId*) override { return Refuse(); }
  CudaResult AddConditional(FrameId, uint32_t, uint32_t, uint64_t*) override { return Refuse(); }
  CudaResult FillFrame(FrameId, absl::Span<const GraphNode>) override { return Refuse(); }
  CudaResult CreateGraphOf(FrameId, GraphId*) override { return Refuse(); }
  CudaResult DestroyFrame(FrameId) override { return Refuse(); }

 private:
  static CudaResult Refuse() { return Lacks(Capability::kGraphs); }
};

class NoLibraries : public virtual Libraries {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoLibraries(const void* /*state*/) {}

  CudaResult LibraryVersion(uint32_t*) override { return Lacks(Capability::kLibraries); }
  uint64_t LibraryMicroseconds(const LibraryCost&) override { return 0; }
  CudaResult CallLibrary(const LibraryRequest&, StreamId, uint32_t*) override {
    return Lacks(Capability::kLibraries);
  }
  CudaResult LibraryAlgorithms(uint32_t, absl::Span<const uint64_t>,
                               std::vector<LtAlgorithm>*) override {
    return Lacks(Capability::kLibraries);
  }
  CudaResult LibraryKinds(absl::Span<const uint64_t>, std::vector<LtKind>*) override {
    return Lacks(Capability::kLibraries);
  }
  CudaResult LibraryFault() override { return CudaResult::kSuccess; }
};

class NoPartitions : public virtual Partitions {
 public:
  static constexpr Capabilities kGives = {};

  explicit NoPartitions(const void* /*state*/) {}

  void LimitPartitions(uint32_t) override {}
  CudaResult Split(absl::Span<const SmStep>, const SmStep&, SmSplitResult*) override {
    return Refuse();
  }
  CudaResult CreatePartition(absl::Span<const SmStep>, PartitionId*) override { return Refuse(); }
  CudaResult DestroyPartition(PartitionId) override { return Refuse(); }
  CudaResult CreateStreamIn(PartitionId, int, StreamId*) override { return Refuse(); }

 private:
  static CudaResult Refuse() { return Lacks(Capability::kPartitions); }
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_LACKING_H_
