// Arrays: their descriptors, copies in every direction, levels, and errors.
#include "setting.h"

namespace conformance {
namespace {

std::vector<unsigned char> Pattern(size_t size, unsigned seed) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + (i >> 8) + seed);
  return bytes;
}

CUDA_ARRAY3D_DESCRIPTOR Shape(size_t width, size_t height, size_t depth, unsigned flags = 0,
                              CUarray_format format = CU_AD_FORMAT_FLOAT, unsigned channels = 1) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = format;
  shape.NumChannels = channels;
  shape.Flags = flags;
  return shape;
}

void Same(const char* call, const char* check, const std::vector<unsigned char>& got,
          const std::vector<unsigned char>& expected) {
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += got[i] != expected[i];
  Holds(call, check, wrong == 0, "%zu wrong bytes of %zu", wrong, expected.size());
}

void Descriptors() {
  if (!Begin()) return;
  struct Case {
    const char* name;
    CUDA_ARRAY3D_DESCRIPTOR shape;
  };
  const Case cases[] = {
      {"1D", Shape(2048, 0, 0)},
      {"2D", Shape(64, 16, 0)},
      {"3D", Shape(16, 8, 4)},
      {"1D layered", Shape(64, 0, 3, CUDA_ARRAY3D_LAYERED)},
      {"2D layered", Shape(64, 16, 3, CUDA_ARRAY3D_LAYERED)},
      {"cubemap", Shape(32, 32, 6, CUDA_ARRAY3D_CUBEMAP)},
      {"for surfaces", Shape(64, 16, 0, CUDA_ARRAY3D_SURFACE_LDST)},
      {"4 halves", Shape(64, 16, 0, 0, CU_AD_FORMAT_HALF, 4)},
      {"2 bytes", Shape(64, 16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 2)},
  };
  for (const Case& c : cases) {
    CUarray array = nullptr;
    if (!CALL(c.name, CUDA_SUCCESS, cuArray3DCreate, &array, &c.shape)) continue;
    CUDA_ARRAY3D_DESCRIPTOR shape = {};
    if (CALL(c.name, CUDA_SUCCESS, cuArray3DGetDescriptor, &shape, array)) {
      HOLDS(cuArray3DGetDescriptor, c.name,
            shape.Width == c.shape.Width && shape.Height == c.shape.Height &&
                shape.Depth == c.shape.Depth && shape.Format == c.shape.Format &&
                shape.NumChannels == c.shape.NumChannels && shape.Flags == c.shape.Flags,
            "is %zu by %zu by %zu, format %d, %u channels, flags %u", shape.Width, shape.Height,
            shape.Depth, int(shape.Format), shape.NumChannels, shape.Flags);
    }
    CALL(c.name, CUDA_SUCCESS, cuArrayDestroy, array);
  }
  CUDA_ARRAY_DESCRIPTOR flat = {};
  flat.Width = 64;
  flat.Height = 16;
  flat.Format = CU_AD_FORMAT_FLOAT;
  flat.NumChannels = 2;
  CUarray array = nullptr;
  if (!CALL("64 by 16", CUDA_SUCCESS, cuArrayCreate, &array, &flat)) return;
  CUDA_ARRAY_DESCRIPTOR got = {};
  CALL("64 by 16", CUDA_SUCCESS, cuArrayGetDescriptor, &got, array);
  HOLDS(cuArrayGetDescriptor, "as created",
        got.Width == 64 && got.Height == 16 && got.NumChannels == 2, "is %zu by %zu", got.Width,
        got.Height);
  CUDA_ARRAY_SPARSE_PROPERTIES sparse = {};
  CALL("not sparse", CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties, &sparse, array);
  CUDA_ARRAY_MEMORY_REQUIREMENTS memory = {};
  CALL("not deferred", CUDA_ERROR_INVALID_VALUE, cuArrayGetMemoryRequirements, &memory, array,
       g_device);
  CALL("64 by 16", CUDA_SUCCESS, cuArrayDestroy, array);
}

void Errors() {
  if (!Begin()) return;
  CUarray array = nullptr;
  const auto fails = [&](const char* check, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    CALL(check, CUDA_ERROR_INVALID_VALUE, cuArray3DCreate, &array, &shape);
  };
  fails("width 0", Shape(0, 16, 0));
  fails("3 channels", Shape(64, 16, 0, 0, CU_AD_FORMAT_FLOAT, 3));
  fails("no channels", Shape(64, 16, 0, 0, CU_AD_FORMAT_FLOAT, 0));
  fails("unknown format", Shape(64, 16, 0, 0, static_cast<CUarray_format>(0x7f)));
  fails("depth without height", Shape(64, 0, 4));
  fails("cubemap that is no square", Shape(64, 32, 6, CUDA_ARRAY3D_CUBEMAP));
  fails("cubemap of 5 faces", Shape(64, 64, 5, CUDA_ARRAY3D_CUBEMAP));
  fails("too wide", Shape(size_t{1} << 40, 1, 0));
  const CUDA_ARRAY3D_DESCRIPTOR large = Shape(16384, 16384, 16384, 0, CU_AD_FORMAT_FLOAT, 4);
  CALL("64 TiB", CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate, &array, &large);
  const CUDA_ARRAY3D_DESCRIPTOR good = Shape(64, 16, 0);
  CALL("no place", CUDA_ERROR_INVALID_VALUE, cuArray3DCreate, nullptr, &good);
  CALL("no descriptor", CUDA_ERROR_INVALID_VALUE, cuArray3DCreate, &array, nullptr);
}

constexpr size_t kWidth = 256, kHeight = 16, kDepth = 4, kPitch = 512;

// Copies rows to and from an array in all directions, at an offset.
void TwoDimensions() {
  if (!Begin()) return;
  CUarray array = nullptr, other = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(kWidth / 4, kHeight, 0);
  SETUP(cuArray3DCreate, &array, &shape);
  SETUP(cuArray3DCreate, &other, &shape);
  const std::vector<unsigned char> in = Pattern(kPitch * kHeight, 1);
  std::vector<unsigned char> out(in.size(), 0), expected(in.size(), 0);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = kPitch;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = kWidth;
  copy.Height = kHeight;
  CALL("host to array", CUDA_SUCCESS, cuMemcpy2D, &copy);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstArray = other;
  CALL("array to array", CUDA_SUCCESS, cuMemcpy2DUnaligned, &copy);
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, kPitch * kHeight);
  SETUP(cuMemsetD8, memory, 0, kPitch * kHeight);
  copy.srcArray = other;
  copy.srcXInBytes = 64;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = kPitch;
  copy.dstXInBytes = 32;
  copy.dstY = 1;
  copy.WidthInBytes = 128;
  copy.Height = 10;
  CALL("array to device", CUDA_SUCCESS, cuMemcpy2DAsync, &copy, nullptr);
  SETUP(cuMemcpyDtoH, out.data(), memory, out.size());
  for (size_t y = 0; y < 10; ++y) {
    std::memcpy(&expected[(y + 1) * kPitch + 32], &in[(y + 2) * kPitch + 64], 128);
  }
  Same("cuMemcpy2DAsync", "array to device bytes", out, expected);
  // Then copies back to a place in the first one.
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = memory;
  back.srcPitch = kPitch;
  back.srcXInBytes = 32;
  back.srcY = 1;
  back.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  back.dstArray = array;
  back.dstXInBytes = 4;
  back.dstY = 3;
  back.WidthInBytes = 128;
  back.Height = 10;
  CALL("device to array", CUDA_SUCCESS, cuMemcpy2D, &back);
  std::fill(out.begin(), out.end(), 0);
  expected = in;
  for (size_t y = 0; y < 10; ++y) {
    std::memcpy(&expected[(y + 3) * kPitch + 4], &in[(y + 2) * kPitch + 64], 128);
  }
  for (size_t y = 0; y < kHeight; ++y) std::memset(&expected[y * kPitch + kWidth], 0, kWidth);
  CUDA_MEMCPY2D read = {};
  read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  read.srcArray = array;
  read.dstMemoryType = CU_MEMORYTYPE_HOST;
  read.dstHost = out.data();
  read.dstPitch = kPitch;
  read.WidthInBytes = kWidth;
  read.Height = kHeight;
  CALL("array to host", CUDA_SUCCESS, cuMemcpy2D, &read);
  Same("cuMemcpy2D", "array to host bytes", out, expected);
  read.srcXInBytes = 4;
  CALL("beyond the row", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &read);
  read.srcXInBytes = 0;
  read.srcY = 1;
  CALL("beyond the last row", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D, &read);
  SETUP(cuArrayDestroy, array);
  SETUP(cuArrayDestroy, other);
}

void ThreeDimensions() {
  if (!Begin()) return;
  for (const unsigned flags : {0u, unsigned(CUDA_ARRAY3D_LAYERED)}) {
    const char* const check = flags == 0 ? "3D" : "layered";
    CUarray array = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR shape =
        Shape(kWidth / 8, kHeight, kDepth, flags, CU_AD_FORMAT_UNSIGNED_INT32, 2);
    SETUP(cuArray3DCreate, &array, &shape);
    const std::vector<unsigned char> in = Pattern(kWidth * kHeight * kDepth, 2);
    std::vector<unsigned char> out(in.size(), 0);
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = in.data();
    copy.srcPitch = kWidth;
    copy.srcHeight = kHeight;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = kWidth;
    copy.Height = kHeight;
    copy.Depth = kDepth;
    CALL(check, CUDA_SUCCESS, cuMemcpy3D, &copy);
    CUDA_MEMCPY3D read = {};
    read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    read.srcArray = array;
    read.dstMemoryType = CU_MEMORYTYPE_HOST;
    read.dstHost = out.data();
    read.dstPitch = kWidth;
    read.dstHeight = kHeight;
    read.WidthInBytes = kWidth;
    read.Height = kHeight;
    read.Depth = kDepth;
    CALL(check, CUDA_SUCCESS, cuMemcpy3DAsync, &read, nullptr);
    SETUP(cuCtxSynchronize);
    Same("cuMemcpy3DAsync", check, out, in);
    // One slice of a part.
    std::fill(out.begin(), out.end(), 0);
    read.srcXInBytes = 16;
    read.srcY = 3;
    read.srcZ = 2;
    read.WidthInBytes = 64;
    read.Height = 4;
    read.Depth = 1;
    CALL("a part", CUDA_SUCCESS, cuMemcpy3D, &read);
    std::vector<unsigned char> expected(in.size(), 0);
    for (size_t y = 0; y < 4; ++y) {
      std::memcpy(&expected[y * kWidth], &in[(2 * kHeight + y + 3) * kWidth + 16], 64);
    }
    Same("cuMemcpy3D", "a part's bytes", out, expected);
    read.srcZ = kDepth;
    CALL("beyond the last slice", CUDA_ERROR_INVALID_VALUE, cuMemcpy3D, &read);
    SETUP(cuArrayDestroy, array);
  }
}

void Runs() {
  if (!Begin()) return;
  CUarray array = nullptr, other = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(kWidth, 0, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1);
  SETUP(cuArray3DCreate, &array, &shape);
  SETUP(cuArray3DCreate, &other, &shape);
  const std::vector<unsigned char> in = Pattern(kWidth, 3);
  std::vector<unsigned char> out(kWidth, 0);
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, kWidth);
  CALL("host to array", CUDA_SUCCESS, cuMemcpyHtoA, array, 0, in.data(), kWidth);
  CALL("array to array", CUDA_SUCCESS, cuMemcpyAtoA, other, 0, array, 0, kWidth);
  CALL("array to device", CUDA_SUCCESS, cuMemcpyAtoD, memory, other, 0, kWidth);
  SETUP(cuMemcpyDtoH, out.data(), memory, kWidth);
  Same("cuMemcpyAtoD", "bytes", out, in);
  std::fill(out.begin(), out.end(), 0);
  CALL("array to host", CUDA_SUCCESS, cuMemcpyAtoH, out.data(), array, 16, 100);
  Holds("cuMemcpyAtoH", "bytes", std::memcmp(out.data(), &in[16], 100) == 0 && out[100] == 0,
        "other bytes");
  CALL("device to array", CUDA_SUCCESS, cuMemcpyDtoA, array, 128, memory, 64);
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuCtxSynchronize);
  CALL("host to array", CUDA_SUCCESS, cuMemcpyHtoAAsync, other, 8, in.data(), 32, stream);
  CALL("array to host", CUDA_SUCCESS, cuMemcpyAtoHAsync, out.data(), other, 8, 32, stream);
  SETUP(cuStreamSynchronize, stream);
  Holds("cuMemcpyAtoHAsync", "bytes", std::memcmp(out.data(), in.data(), 32) == 0, "other bytes");
  CALL("array to host", CUDA_SUCCESS, cuMemcpyAtoH, out.data(), array, 128, 64);
  Holds("cuMemcpyDtoA", "bytes", std::memcmp(out.data(), in.data(), 64) == 0, "other bytes");
  CALL("beyond the end", CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH, out.data(), array, kWidth - 8, 16);
}

void Levels() {
  if (!Begin()) return;
  CUmipmappedArray whole = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 16, 0);
  if (!CALL("7 levels and more", CUDA_SUCCESS, cuMipmappedArrayCreate, &whole, &shape, 20)) return;
  for (unsigned level : {0u, 1u, 4u, 6u}) {
    CUarray array = nullptr;
    const std::string check = "level " + std::to_string(level);
    if (!CALL(check.c_str(), CUDA_SUCCESS, cuMipmappedArrayGetLevel, &array, whole, level))
      continue;
    CUDA_ARRAY3D_DESCRIPTOR got = {};
    SETUP(cuArray3DGetDescriptor, &got, array);
    EQUAL(cuMipmappedArrayGetLevel, (check + " width").c_str(), got.Width, size_t{64} >> level);
    const size_t height = std::max<size_t>(size_t{16} >> level, 1);
    EQUAL(cuMipmappedArrayGetLevel, (check + " height").c_str(), got.Height, height);
    const size_t row = got.Width * 4;
    const std::vector<unsigned char> in = Pattern(row * height, level);
    std::vector<unsigned char> out(in.size(), 0);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = in.data();
    copy.srcPitch = row;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = row;
    copy.Height = height;
    SETUP(cuMemcpy2D, &copy);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = out.data();
    copy.dstPitch = row;
    SETUP(cuMemcpy2D, &copy);
    Same("cuMipmappedArrayGetLevel", (check + " bytes").c_str(), out, in);
  }
  CUarray none = nullptr;
  CALL("level 7", CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel, &none, whole, 7);
  CALL("no place", CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel, nullptr, whole, 0);
  CALL("7 levels", CUDA_SUCCESS, cuMipmappedArrayDestroy, whole);
  CALL("no place", CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayCreate, nullptr, &shape, 2);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "arrays",
             {{"descriptors", Descriptors},
              {"errors", Errors},
              {"two_dimensions", TwoDimensions},
              {"three_dimensions", ThreeDimensions},
              {"runs", Runs},
              {"levels", Levels}});
}
