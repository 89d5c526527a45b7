// The arrays, textures and graphs of a FakeContext.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_OBJECTS_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_OBJECTS_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/arrays.h"
#include "server/device/facets/graphs.h"
#include "server/device/facets/textures.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// Thread-safe.
class FakeArrays : public virtual device::Arrays {
 public:
  explicit FakeArrays(FakeShared* shared) : log_(shared->log) {}

  // An array of width 13 cannot be created.
  CudaResult CreateArray(device::ArrayShape* shape, device::ArrayId* array) override {
    *array = device::ArrayId{20};
    log_.Add("array", {},
             absl::StrCat(shape->width, "x", shape->height, " levels=", shape->levels));
    return shape->width == 13 ? CudaResult::kInvalidValue : CudaResult::kSuccess;
  }
  CudaResult DestroyArray(device::ArrayId) override { return log_.Add("free-array", {}, ""); }
  CudaResult ArrayLevel(device::ArrayId, uint32_t level, device::ArrayShape* shape,
                        device::ArrayId* part) override {
    shape->width = 64u >> level;
    *part = static_cast<device::ArrayId>(30 + level);
    return CudaResult::kSuccess;
  }
  CudaResult ArrayPlane(device::ArrayId, uint32_t, device::ArrayShape*, device::ArrayId*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult CopyArray(const device::ArrayEnd& to, const device::ArrayEnd& from,
                       const BoxExtent& extent, device::StreamId stream) override {
    const auto name = [](const device::ArrayEnd& end) {
      using Kind = device::ArrayEnd::Kind;
      return end.kind == Kind::kArray  ? absl::StrCat("array", static_cast<uint64_t>(end.array))
             : end.kind == Kind::kHost ? std::string("host")
                                       : absl::StrCat(end.place.address);
    };
    if (to.host != nullptr) std::memset(to.host, 'a', extent.bytes());
    return log_.Add("array-copy", stream, absl::StrCat(name(from), ">", name(to)));
  }

 private:
  FakeLog& log_;
};

// Thread-safe.
class FakeTextures : public virtual device::Textures {
 public:
  explicit FakeTextures(FakeShared* shared) : log_(shared->log) {}

  CudaResult CreateTexture(const device::Texture& texture, uint64_t* object) override {
    *object = 0x77;
    return log_.Add(texture.is_surface ? "surface" : "texture", {},
                    absl::StrCat(static_cast<uint64_t>(texture.array)));
  }
  CudaResult DestroyTexture(uint64_t object, bool) override {
    return log_.Add("free-texture", {}, absl::StrCat(object));
  }
  CudaResult LinearTextureWidth(uint32_t, uint32_t channels, uint64_t* elements) override {
    *elements = uint64_t{1000} * channels;
    return CudaResult::kSuccess;
  }
  CudaResult EncodeTensorMap(const device::TensorMap& request,
                             device::TensorMapBytes* map) override {
    (*map)[0] = request.address;
    (*map)[2] = request.kind;
    return CudaResult::kSuccess;
  }

 private:
  FakeLog& log_;
};

// Supports graphs of frames only, so that others are issued node by node. Thread-safe.
class FakeGraphs : public virtual device::Graphs {
 public:
  explicit FakeGraphs(FakeShared* shared) : log_(shared->log) {}

  CudaResult CreateGraph(absl::Span<const device::GraphNode> nodes, device::GraphId*) override {
    for (const device::GraphNode& node : nodes) {
      if (node.partition == device::PartitionId{}) continue;
      log_.AddLine(absl::StrCat("node-in ", static_cast<uint64_t>(node.partition)));
    }
    return CudaResult::kNotSupported;
  }
  CudaResult LaunchGraph(device::GraphId graph, device::StreamId stream) override {
    return log_.Add("graph-launch", stream, absl::StrCat(static_cast<uint64_t>(graph)));
  }
  CudaResult DestroyGraph(device::GraphId) override { return log_.Add("free-graph", {}, ""); }
  CudaResult CreateFrame(device::FrameId* frame) override {
    *frame = device::FrameId{70};
    return log_.Add("frame", {}, "");
  }
  CudaResult AddConditional(device::FrameId, uint32_t first_value, uint32_t flags,
                            uint64_t* conditional) override {
    log_.AddLine(absl::StrCat("conditional ", first_value, " ", flags));
    *conditional = next_conditional_++;
    return CudaResult::kSuccess;
  }
  CudaResult FillFrame(device::FrameId, absl::Span<const device::GraphNode> nodes) override {
    for (const device::GraphNode& node : nodes) {
      log_.AddLine(absl::StrCat("node ", static_cast<int>(node.kind), " in ", node.body));
    }
    return CudaResult::kSuccess;
  }
  CudaResult CreateGraphOf(device::FrameId, device::GraphId* graph) override {
    *graph = device::GraphId{71};
    return log_.Add("graph", {}, "");
  }
  CudaResult DestroyFrame(device::FrameId) override { return log_.Add("free-frame", {}, ""); }

 private:
  FakeLog& log_;
  std::atomic<uint64_t> next_conditional_{900};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_OBJECTS_H_
