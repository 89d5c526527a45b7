// Tensor maps. The server's driver encodes them. Its answer for each set of parameters is
// remembered, since a map depends on nothing else.
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/runtime/runtime.h"
#include "common/mutex.h"

using namespace warpline::stub;

namespace {

constexpr uint32_t kTiled = 0, kIm2col = 1, kIm2colWide = 2, kReplaceAddress = 3;
constexpr cuuint32_t kMaxRank = 5;
// Programs use a few hundred; at 1 KiB each, this bounds the memory.
constexpr size_t kMaxRemembered = 8192;

// A map's bytes. The hash map does not align its entries as CUtensorMap wants.
using MapBytes = std::array<unsigned char, sizeof(CUtensorMap)>;

struct Remembered {
  warpline::Mutex mu;
  absl::flat_hash_map<std::string, MapBytes> maps ABSL_GUARDED_BY(mu);
};

Remembered& remembered() {
  static Remembered* const made = new Remembered;
  return *made;
}

// NVIDIA's driver takes any address for a map, whatever the type's alignment.
void Put(const MapBytes& from, CUtensorMap* map) {
  std::memcpy(static_cast<void*>(map), from.data(), from.size());
}

CUresult Encode(const warpline::cmd::TensorMapEncode& command, CUtensorMap* map) {
  std::string key(reinterpret_cast<const char*>(&command), sizeof(command));
  const bool replaces = command.kind == kReplaceAddress;
  std::string_view tail;
  if (replaces) {
    tail = {reinterpret_cast<const char*>(map), sizeof(*map)};
    key.append(tail);
  }
  Remembered& known = remembered();
  {
    warpline::MutexLock lock(&known.mu);
    if (const auto it = known.maps.find(key); it != known.maps.end()) {
      Put(it->second, map);
      return CUDA_SUCCESS;
    }
  }
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, tail, &reply)));
  std::string_view rest = reply;
  MapBytes made;
  if (!warpline::TakeStruct(&rest, &made)) return CUDA_ERROR_UNKNOWN;
  Put(made, map);
  warpline::MutexLock lock(&known.mu);
  if (known.maps.size() >= kMaxRemembered) known.maps.clear();
  known.maps.emplace(std::move(key), made);
  return CUDA_SUCCESS;
}

// Describes what all three kinds of maps have. CUDA_ERROR_INVALID_VALUE for parameters that cannot
// be sent.
CUresult Describe(uint32_t kind, const CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                  const void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                  const cuuint32_t* element_strides, warpline::cmd::TensorMapEncode* command) {
  if (map == nullptr || rank == 0 || rank > kMaxRank || sizes == nullptr || strides == nullptr ||
      element_strides == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  command->kind = kind;
  command->data_type = static_cast<uint32_t>(type);
  command->rank = rank;
  command->address = reinterpret_cast<uint64_t>(address);
  for (cuuint32_t i = 0; i < rank; ++i) {
    command->sizes[i] = sizes[i];
    command->element_strides[i] = element_strides[i];
    if (i + 1 < rank) command->strides[i] = strides[i];
  }
  return CUDA_SUCCESS;
}

void SetModes(CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill,
              warpline::cmd::TensorMapEncode* command) {
  command->interleave = static_cast<uint32_t>(interleave);
  command->swizzle = static_cast<uint32_t>(swizzle);
  command->promotion = static_cast<uint32_t>(promotion);
  command->fill = static_cast<uint32_t>(fill);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    const cuuint32_t* boxDim, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  WARPLINE_TRY(Enter());
  warpline::cmd::TensorMapEncode command = {};
  WARPLINE_TRY(Describe(kTiled, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                        globalStrides, elementStrides, &command));
  if (boxDim == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < tensorRank; ++i) command.box[i] = boxDim[i];
  SetModes(interleave, swizzle, l2Promotion, oobFill, &command);
  return Encode(command, tensorMap);
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    const int* pixelBoxLowerCorner, const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  WARPLINE_TRY(Enter());
  warpline::cmd::TensorMapEncode command = {};
  WARPLINE_TRY(Describe(kIm2col, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                        globalStrides, elementStrides, &command));
  // The corners have a place for every dimension but those of channels and batches.
  if (tensorRank < 3 || pixelBoxLowerCorner == nullptr || pixelBoxUpperCorner == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (cuuint32_t i = 0; i + 2 < tensorRank; ++i) {
    command.lower[i] = pixelBoxLowerCorner[i];
    command.upper[i] = pixelBoxUpperCorner[i];
  }
  command.channels = channelsPerPixel;
  command.pixels = pixelsPerColumn;
  SetModes(interleave, swizzle, l2Promotion, oobFill, &command);
  return Encode(command, tensorMap);
}

CUresult CUDAAPI cuTensorMapEncodeIm2colWide(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  WARPLINE_TRY(Enter());
  warpline::cmd::TensorMapEncode command = {};
  WARPLINE_TRY(Describe(kIm2colWide, tensorMap, tensorDataType, tensorRank, globalAddress,
                        globalDim, globalStrides, elementStrides, &command));
  command.lower[0] = pixelBoxLowerCornerWidth;
  command.upper[0] = pixelBoxUpperCornerWidth;
  command.channels = channelsPerPixel;
  command.pixels = pixelsPerColumn;
  command.mode = static_cast<uint32_t>(mode);
  SetModes(interleave, swizzle, l2Promotion, oobFill, &command);
  return Encode(command, tensorMap);
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) {
  WARPLINE_TRY(Enter());
  if (tensorMap == nullptr) return CUDA_ERROR_INVALID_VALUE;
  warpline::cmd::TensorMapEncode command = {};
  command.kind = kReplaceAddress;
  command.address = reinterpret_cast<uint64_t>(globalAddress);
  return Encode(command, tensorMap);
}

}  // extern "C"
