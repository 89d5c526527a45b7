// Copies of two and three dimensions.
#include "setting.h"

namespace conformance {
namespace {

constexpr size_t kPitch = 512, kRows = 40, kDepth = 6;

std::vector<unsigned char> Pattern(size_t size) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + (i >> 9) * 13);
  return bytes;
}

enum class Side { kHost, kDevice, kUnified };

const char* NameOf(Side side) {
  return side == Side::kHost ? "host" : side == Side::kDevice ? "device" : "unified";
}

// Memory on either side, and its expected content.
struct Place {
  std::vector<unsigned char> host;
  CUdeviceptr device = 0;

  bool Open(size_t size) {
    host.assign(size, 0);
    return CU(cuMemAlloc)(&device, size) == CUDA_SUCCESS;
  }
  bool Fill(const std::vector<unsigned char>& bytes) {
    host = bytes;
    return CU(cuMemcpyHtoD)(device, bytes.data(), bytes.size()) == CUDA_SUCCESS;
  }
  std::vector<unsigned char> Read(Side side) {
    if (side == Side::kHost) return host;
    std::vector<unsigned char> bytes(host.size());
    CU(cuMemcpyDtoH)(bytes.data(), device, bytes.size());
    return bytes;
  }
};

template <typename Copy>
void SetSource(Copy* copy, Side side, Place* place) {
  copy->srcMemoryType = side == Side::kHost     ? CU_MEMORYTYPE_HOST
                        : side == Side::kDevice ? CU_MEMORYTYPE_DEVICE
                                                : CU_MEMORYTYPE_UNIFIED;
  if (side == Side::kHost) {
    copy->srcHost = place->host.data();
  } else {
    copy->srcDevice = place->device;
  }
}

template <typename Copy>
void SetTarget(Copy* copy, Side side, Place* place) {
  copy->dstMemoryType = side == Side::kHost     ? CU_MEMORYTYPE_HOST
                        : side == Side::kDevice ? CU_MEMORYTYPE_DEVICE
                                                : CU_MEMORYTYPE_UNIFIED;
  if (side == Side::kHost) {
    copy->dstHost = place->host.data();
  } else {
    copy->dstDevice = place->device;
  }
}

// The target of a box copy of `bytes` into zeros.
std::vector<unsigned char> Expected(const std::vector<unsigned char>& bytes, size_t from, size_t to,
                                    size_t width, size_t height, size_t depth, size_t slice) {
  std::vector<unsigned char> result(bytes.size(), 0);
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      std::memcpy(&result[to + z * slice + y * kPitch], &bytes[from + z * slice + y * kPitch],
                  width);
    }
  }
  return result;
}

void Same(const char* call, const std::string& check, const std::vector<unsigned char>& got,
          const std::vector<unsigned char>& expected) {
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += got[i] != expected[i];
  Holds(call, (check + " bytes").c_str(), wrong == 0, "%zu wrong bytes", wrong);
}

void TwoDimensions() {
  if (!Begin()) return;
  const std::vector<unsigned char> bytes = Pattern(kPitch * kRows);
  for (const Side from : {Side::kHost, Side::kDevice, Side::kUnified}) {
    for (const Side to : {Side::kHost, Side::kDevice, Side::kUnified}) {
      for (const char* function : {"cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy2DAsync"}) {
        Place source, target;
        if (!source.Open(bytes.size()) || !target.Open(bytes.size()) || !source.Fill(bytes) ||
            !target.Fill(std::vector<unsigned char>(bytes.size(), 0))) {
          Holds(function, "memory", false, "no memory");
          return;
        }
        const std::string check = std::string(NameOf(from)) + " to " + NameOf(to);
        CUDA_MEMCPY2D copy = {};
        SetSource(&copy, from, &source);
        SetTarget(&copy, to, &target);
        copy.srcXInBytes = 5;
        copy.srcY = 3;
        copy.dstXInBytes = 9;
        copy.dstY = 7;
        copy.srcPitch = copy.dstPitch = kPitch;
        copy.WidthInBytes = 123;
        copy.Height = 20;
        if (std::strcmp(function, "cuMemcpy2D") == 0) {
          CALL(check.c_str(), CUDA_SUCCESS, cuMemcpy2D, &copy);
        } else if (std::strcmp(function, "cuMemcpy2DUnaligned") == 0) {
          CALL(check.c_str(), CUDA_SUCCESS, cuMemcpy2DUnaligned, &copy);
        } else {
          CALL(check.c_str(), CUDA_SUCCESS, cuMemcpy2DAsync, &copy, nullptr);
          SETUP(cuCtxSynchronize);
        }
        Same(function, check, target.Read(to),
             Expected(bytes, 3 * kPitch + 5, 7 * kPitch + 9, 123, 20, 1, 0));
        SETUP(cuMemFree, source.device);
        SETUP(cuMemFree, target.device);
      }
    }
  }
}

void ThreeDimensions() {
  if (!Begin()) return;
  const size_t slice = kPitch * kRows;
  const std::vector<unsigned char> bytes = Pattern(slice * kDepth);
  for (const Side from : {Side::kHost, Side::kDevice}) {
    for (const Side to : {Side::kHost, Side::kDevice}) {
      for (const bool waiting : {true, false}) {
        Place source, target;
        if (!source.Open(bytes.size()) || !target.Open(bytes.size()) || !source.Fill(bytes) ||
            !target.Fill(std::vector<unsigned char>(bytes.size(), 0))) {
          Holds("cuMemcpy3D", "memory", false, "no memory");
          return;
        }
        const std::string check = std::string(NameOf(from)) + " to " + NameOf(to);
        CUDA_MEMCPY3D copy = {};
        SetSource(&copy, from, &source);
        SetTarget(&copy, to, &target);
        copy.srcXInBytes = 4;
        copy.srcY = 1;
        copy.srcZ = 2;
        copy.dstXInBytes = 8;
        copy.dstY = 2;
        copy.dstZ = 1;
        copy.srcPitch = copy.dstPitch = kPitch;
        copy.srcHeight = copy.dstHeight = kRows;
        copy.WidthInBytes = 100;
        copy.Height = 30;
        copy.Depth = 3;
        if (waiting) {
          CALL(check.c_str(), CUDA_SUCCESS, cuMemcpy3D, &copy);
        } else {
          CALL(check.c_str(), CUDA_SUCCESS, cuMemcpy3DAsync, &copy, nullptr);
          SETUP(cuCtxSynchronize);
        }
        Same(waiting ? "cuMemcpy3D" : "cuMemcpy3DAsync", check, target.Read(to),
             Expected(bytes, 2 * slice + kPitch + 4, slice + 2 * kPitch + 8, 100, 30, 3, slice));
        SETUP(cuMemFree, source.device);
        SETUP(cuMemFree, target.device);
      }
    }
  }
}

void Peer() {
  if (!Begin()) return;
  Place source, target;
  if (!source.Open(kPitch * kRows) || !target.Open(kPitch * kRows)) return;
  CUDA_MEMCPY3D_PEER copy = {};
  SetSource(&copy, Side::kDevice, &source);
  SetTarget(&copy, Side::kDevice, &target);
  copy.srcContext = copy.dstContext = g_context;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcHeight = copy.dstHeight = kRows;
  copy.WidthInBytes = 64;
  copy.Height = 4;
  copy.Depth = 1;
  CALL("same device", CUDA_SUCCESS, cuMemcpy3DPeer, &copy);
  CALL("same device", CUDA_SUCCESS, cuMemcpy3DPeerAsync, &copy, nullptr);
  CALL("after both", CUDA_SUCCESS, cuCtxSynchronize);
}

void Refused() {
  if (!Begin()) return;
  Place source, target;
  if (!source.Open(kPitch * kRows) || !target.Open(kPitch * kRows)) return;
  CUDA_MEMCPY2D copy = {};
  SetSource(&copy, Side::kHost, &source);
  SetTarget(&copy, Side::kDevice, &target);
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.WidthInBytes = 64;
  copy.Height = 4;
  CALL("plain", CUDA_SUCCESS, cuMemcpy2D, &copy);
  CUDA_MEMCPY2D other = copy;
  other.dstPitch = 32;
  CALL("pitch below the width", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &other);
  other = copy;
  other.Height = 0;
  CALL("no rows", CUDA_SUCCESS, cuMemcpy2D, &other);
  other = copy;
  other.WidthInBytes = 0;
  CALL("no width", CUDA_SUCCESS, cuMemcpy2D, &other);
  other = copy;
  other.dstDevice = kBadAddress;
  CALL("no such device memory", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &other);
  other = copy;
  other.srcHost = nullptr;
  CALL("no host memory", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &other);
  other = copy;
  other.srcMemoryType = static_cast<CUmemorytype>(77);
  CALL("unknown kind of memory", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &other);
  CALL("no description", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, nullptr);
  CUDA_MEMCPY3D box = {};
  SetSource(&box, Side::kHost, &source);
  SetTarget(&box, Side::kDevice, &target);
  box.srcPitch = box.dstPitch = kPitch;
  box.srcHeight = box.dstHeight = kRows;
  box.WidthInBytes = 64;
  box.Height = 4;
  box.Depth = 1;
  CALL("plain", CUDA_SUCCESS, cuMemcpy3D, &box);
  box.Depth = 0;
  CALL("no depth", CUDA_SUCCESS, cuMemcpy3D, &box);
  box.Depth = 2;
  box.srcHeight = 2;
  CALL("height of the source too low", CUDA_ERROR_INVALID_VALUE, cuMemcpy3D, &box);
  CALL("no description", CUDA_ERROR_INVALID_VALUE, cuMemcpy3D, nullptr);
  CALL("after refusals", CUDA_SUCCESS, cuCtxSynchronize);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "boxes",
             {{"two_dimensions", TwoDimensions},
              {"three_dimensions", ThreeDimensions},
              {"peer", Peer},
              {"refused", Refused}});
}
