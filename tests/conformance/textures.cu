// Texture and surface objects: reads by kernels, descriptors, and errors.
#include <cmath>

#include "setting.h"

namespace conformance {
namespace {

constexpr int kWidth = 64, kHeight = 16;

float Value(int i) { return static_cast<float>(i) * 0.25f + 1.0f; }

std::vector<float> Values(int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = Value(i);
  return values;
}

// The CPU device refuses these kernels when they are looked up, and the objects before that.
bool Prepare(CUmodule* module, CUdeviceptr* out) {
  if (!Begin() || !LoadModule(module, "ptx/texture_kernels.ptx")) return false;
  Mark("cuMemAlloc", "setup");
  return Setup(CU(cuMemAlloc)(out, 1 << 20));
}

bool Make(const char* check, CUtexObject* object, const CUDA_RESOURCE_DESC& resource,
          const CUDA_TEXTURE_DESC& options) {
  if (on_cpu()) {
    return REFUSED(check, CUDA_SUCCESS, cuTexObjectCreate, object, &resource, &options, nullptr);
  }
  return CALL(check, CUDA_SUCCESS, cuTexObjectCreate, object, &resource, &options, nullptr);
}

void Width() {
  if (!Begin()) return;
  size_t elements = 0;
  if (on_cpu()) {
    REFUSED("floats", CUDA_SUCCESS, cuDeviceGetTexture1DLinearMaxWidth, &elements,
            CU_AD_FORMAT_FLOAT, 1, g_device);
    return;
  }
  CALL("floats", CUDA_SUCCESS, cuDeviceGetTexture1DLinearMaxWidth, &elements, CU_AD_FORMAT_FLOAT, 1,
       g_device);
  HOLDS(cuDeviceGetTexture1DLinearMaxWidth, "some millions", elements >= size_t{1} << 20, "%zu",
        elements);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetTexture1DLinearMaxWidth, &elements,
       CU_AD_FORMAT_FLOAT, 1, -1);
}

template <typename... Parameters>
bool Launch(CUmodule module, const char* name, int grid, int block, Parameters... parameters) {
  CUfunction kernel = nullptr;
  if (!Kernel(&kernel, module, name)) return false;
  void* addresses[] = {&parameters...};
  Mark("cuLaunchKernel", "setup");
  return Setup(CU(cuLaunchKernel)(kernel, grid, 1, 1, block, 1, 1, 0, nullptr, addresses, nullptr));
}

template <typename Expected>
void Check(const char* check, CUdeviceptr out, int count, const Expected& expected) {
  std::vector<float> got(count);
  SETUP(cuMemcpyDtoH, got.data(), out, count * sizeof(float));
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += std::fabs(got[i] - expected(i)) > 1e-3f;
  HOLDS(cuTexObjectCreate, check, wrong == 0, "%d of %d values are wrong, the first is %f", wrong,
        count, got[0]);
}

bool Upload(CUarray array, const std::vector<float>& values, int width, int height, int depth) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = width * 4;
  copy.srcHeight = height;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  Mark("cuMemcpy3D", "setup");
  return Setup(CU(cuMemcpy3D)(&copy));
}

bool MakeArray(CUarray* array, int width, int height, int depth, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = flags;
  Mark("cuArray3DCreate", "setup");
  return Setup(CU(cuArray3DCreate)(array, &shape)) &&
         Upload(*array, Values(width * height * std::max(depth, 1)), width, height,
                std::max(depth, 1));
}

CUDA_RESOURCE_DESC OfArray(CUarray array) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

CUDA_TEXTURE_DESC Clamped(CUfilter_mode filter, unsigned flags = 0) {
  CUDA_TEXTURE_DESC options = {};
  for (CUaddress_mode& mode : options.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  options.filterMode = filter;
  options.flags = flags;
  return options;
}

void Linear() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0, memory = 0;
  if (!Prepare(&module, &out)) return;
  SETUP(cuMemAlloc, &memory, 4096);
  const std::vector<float> values = Values(1024);
  SETUP(cuMemcpyHtoD, memory, values.data(), 4096);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 4096;
  CUtexObject object = 0;
  if (!Make("of linear memory", &object, resource, {})) return;
  if (Launch(module, "fetch", 4, 256, object, out, 1024)) Check("fetched", out, 1024, Value);
  // A change of the memory is seen by the next kernel.
  SETUP(cuMemsetD32, memory, 0x40000000, 1024);
  if (Launch(module, "fetch", 4, 256, object, out, 1024)) {
    Check("fetched after a change", out, 1024, [](int) { return 2.0f; });
  }
  CALL("of linear memory", CUDA_SUCCESS, cuTexObjectDestroy, object);
  resource.res.linear.devPtr = memory + 4;
  CUDA_TEXTURE_DESC options = {};
  CALL("unaligned memory", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, &object, &resource,
       &options, nullptr);
}

void Rows() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0, memory = 0;
  size_t pitch = 0;
  if (!Prepare(&module, &out)) return;
  SETUP(cuMemAllocPitch, &memory, &pitch, kWidth * 4, kHeight, 4);
  const std::vector<float> values = Values(kWidth * kHeight);
  for (int y = 0; y < kHeight; ++y) {
    SETUP(cuMemcpyHtoD, memory + y * pitch, &values[y * kWidth], kWidth * 4);
  }
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = memory;
  resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  resource.res.pitch2D.numChannels = 1;
  resource.res.pitch2D.width = kWidth;
  resource.res.pitch2D.height = kHeight;
  resource.res.pitch2D.pitchInBytes = pitch;
  CUtexObject object = 0;
  if (!Make("of rows", &object, resource, Clamped(CU_TR_FILTER_MODE_POINT))) return;
  if (Launch(module, "sample", kHeight, kWidth, object, out, kWidth, kHeight, 0.5f, 0.5f)) {
    Check("rows", out, kWidth * kHeight, Value);
  }
  CALL("of rows", CUDA_SUCCESS, cuTexObjectDestroy, object);
}

void TwoDimensions() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;
  CUarray array = nullptr;
  if (!Prepare(&module, &out) || !MakeArray(&array, kWidth, kHeight, 0, 0)) return;
  const CUDA_RESOURCE_DESC resource = OfArray(array);
  CUtexObject point = 0, linear = 0, border = 0;
  if (!Make("points", &point, resource, Clamped(CU_TR_FILTER_MODE_POINT))) return;
  if (!Make("interpolated", &linear, resource, Clamped(CU_TR_FILTER_MODE_LINEAR))) return;
  HOLDS(cuTexObjectCreate, "two numbers", point != linear, "both are %llu", point);
  if (Launch(module, "sample", kHeight, kWidth, point, out, kWidth, kHeight, 0.5f, 0.5f)) {
    Check("points", out, kWidth * kHeight, Value);
  }
  if (Launch(module, "sample", kHeight, kWidth - 1, linear, out, kWidth - 1, kHeight, 1.0f, 0.5f)) {
    Check("halfway", out, (kWidth - 1) * kHeight, [](int i) {
      const int x = i % (kWidth - 1), y = i / (kWidth - 1);
      return Value(y * kWidth + x) + 0.125f;
    });
  }
  CUDA_TEXTURE_DESC options = {};
  for (CUaddress_mode& mode : options.addressMode) mode = CU_TR_ADDRESS_MODE_BORDER;
  options.borderColor[0] = 42.0f;
  if (Make("border", &border, resource, options) &&
      Launch(module, "sample", kHeight, kWidth, border, out, kWidth, kHeight, 0.5f + kWidth,
             0.5f)) {
    Check("border", out, kWidth * kHeight, [](int) { return 42.0f; });
  }
  CUDA_RESOURCE_DESC got = {};
  CALL("points", CUDA_SUCCESS, cuTexObjectGetResourceDesc, &got, point);
  HOLDS(cuTexObjectGetResourceDesc, "the array", got.res.array.hArray == array, "is another");
  CUDA_TEXTURE_DESC got_options = {};
  CALL("border", CUDA_SUCCESS, cuTexObjectGetTextureDesc, &got_options, border);
  // The driver uses the color but does not give it back.
  HOLDS(cuTexObjectGetTextureDesc, "no color", got_options.borderColor[0] == 0.0f, "%g",
        got_options.borderColor[0]);
  EQUAL(cuTexObjectGetTextureDesc, "the mode", got_options.addressMode[0],
        CU_TR_ADDRESS_MODE_BORDER);
  for (const CUtexObject object : {point, linear, border}) {
    CALL("of an array", CUDA_SUCCESS, cuTexObjectDestroy, object);
  }
  SETUP(cuArrayDestroy, array);
}

void Bytes() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;
  if (!Prepare(&module, &out)) return;
  CUDA_ARRAY_DESCRIPTOR shape = {};
  shape.Width = 32;
  shape.Height = 1;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  shape.NumChannels = 4;
  CUarray array = nullptr;
  SETUP(cuArrayCreate, &array, &shape);
  std::vector<unsigned char> bytes(128);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 2);
  SETUP(cuMemcpyHtoA, array, 0, bytes.data(), bytes.size());
  CUtexObject object = 0;
  if (!Make("bytes", &object, OfArray(array), Clamped(CU_TR_FILTER_MODE_POINT))) return;
  if (Launch(module, "sample_bytes", 1, 32, object, out, 32)) {
    Check("bytes from 0 to 1", out, 128, [&](int i) { return bytes[i] / 255.0f; });
  }
}

void ThreeDimensions() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;
  CUarray array = nullptr, layers = nullptr;
  if (!Prepare(&module, &out) || !MakeArray(&array, kWidth, kHeight, 4, 0) ||
      !MakeArray(&layers, kWidth, kHeight, 3, CUDA_ARRAY3D_LAYERED)) {
    return;
  }
  CUtexObject object = 0, layered = 0;
  if (!Make("3D", &object, OfArray(array), Clamped(CU_TR_FILTER_MODE_POINT))) return;
  if (Launch(module, "sample_slice", kHeight, kWidth, object, out, kWidth, 2.5f)) {
    Check("a slice", out, kWidth * kHeight, [](int i) { return Value(2 * kWidth * kHeight + i); });
  }
  if (!Make("layered", &layered, OfArray(layers), Clamped(CU_TR_FILTER_MODE_POINT))) return;
  if (Launch(module, "sample_layer", kHeight, kWidth, layered, out, kWidth, 1)) {
    Check("a layer", out, kWidth * kHeight, [](int i) { return Value(kWidth * kHeight + i); });
  }
}

void Levels() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;
  if (!Prepare(&module, &out)) return;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = kWidth;
  shape.Height = kHeight;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUmipmappedArray whole = nullptr;
  SETUP(cuMipmappedArrayCreate, &whole, &shape, 3);
  for (int level = 0; level < 3; ++level) {
    CUarray array = nullptr;
    SETUP(cuMipmappedArrayGetLevel, &array, whole, level);
    const int width = kWidth >> level, height = kHeight >> level;
    if (!Upload(array, std::vector<float>(width * height, 10.0f * level), width, height, 1)) return;
  }
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = whole;
  CUDA_TEXTURE_DESC options = Clamped(CU_TR_FILTER_MODE_LINEAR, CU_TRSF_NORMALIZED_COORDINATES);
  options.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
  options.maxMipmapLevelClamp = 2.0f;
  CUtexObject object = 0;
  if (!Make("3 levels", &object, resource, options)) return;
  for (const float level : {0.0f, 1.0f, 1.5f}) {
    if (Launch(module, "sample_level", kHeight, kWidth, object, out, kWidth, kHeight, level)) {
      Check(("level " + std::to_string(level)).c_str(), out, kWidth * kHeight,
            [level](int) { return 10.0f * level; });
    }
  }
  CALL("3 levels", CUDA_SUCCESS, cuTexObjectDestroy, object);
  SETUP(cuMipmappedArrayDestroy, whole);
}

void Surfaces() {
  CUmodule module = nullptr;
  CUdeviceptr out = 0;
  CUarray array = nullptr;
  if (!Prepare(&module, &out) ||
      !MakeArray(&array, kWidth, kHeight, 0, CUDA_ARRAY3D_SURFACE_LDST)) {
    return;
  }
  const CUDA_RESOURCE_DESC resource = OfArray(array);
  CUsurfObject surface = 0;
  if (on_cpu()) {
    REFUSED("of an array", CUDA_SUCCESS, cuSurfObjectCreate, &surface, &resource);
    return;
  }
  if (!CALL("of an array", CUDA_SUCCESS, cuSurfObjectCreate, &surface, &resource)) return;
  if (!Launch(module, "add_to_surface", kHeight, kWidth, surface, 100.0f)) return;
  std::vector<float> got(kWidth * kHeight);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = got.data();
  copy.dstPitch = kWidth * 4;
  copy.WidthInBytes = kWidth * 4;
  copy.Height = kHeight;
  SETUP(cuMemcpy2D, &copy);
  int wrong = 0;
  for (int i = 0; i < kWidth * kHeight; ++i) wrong += got[i] != Value(i) + 100.0f;
  HOLDS(cuSurfObjectCreate, "written", wrong == 0, "%d values are wrong", wrong);
  CUDA_RESOURCE_DESC back = {};
  CALL("of an array", CUDA_SUCCESS, cuSurfObjectGetResourceDesc, &back, surface);
  HOLDS(cuSurfObjectGetResourceDesc, "the array", back.res.array.hArray == array, "is another");
  CALL("of an array", CUDA_SUCCESS, cuSurfObjectDestroy, surface);
  CALL("none", CUDA_SUCCESS, cuSurfObjectDestroy, 0);
}

void Errors() {
  if (!Begin()) return;
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC options = {};
  CUtexObject object = 0;
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, 4096);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 4096;
  CALL("no place", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, nullptr, &resource, &options,
       nullptr);
  CALL("no resource", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, &object, nullptr, &options,
       nullptr);
  CALL("no options", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, &object, &resource, nullptr,
       nullptr);
  resource.flags = 1;
  CALL("resource flags", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, &object, &resource, &options,
       nullptr);
  resource.flags = 0;
  CUsurfObject surface = 0;
  CALL("of linear memory", CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate, &surface, &resource);
  resource.resType = static_cast<CUresourcetype>(9);
  CALL("unknown kind", CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate, &object, &resource, &options,
       nullptr);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "textures",
             {{"width", Width},
              {"linear", Linear},
              {"rows", Rows},
              {"two_dimensions", TwoDimensions},
              {"bytes", Bytes},
              {"three_dimensions", ThreeDimensions},
              {"levels", Levels},
              {"surfaces", Surfaces},
              {"errors", Errors}});
}
