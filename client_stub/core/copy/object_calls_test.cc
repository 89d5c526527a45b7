// Arrays, textures, tensor maps and links: what is sent, and what is refused here.
#include <cstring>
#include <string>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

class ObjectCallsTest : public CoreTest {
 protected:
  CUarray Array(size_t width, size_t height) {
    CUDA_ARRAY_DESCRIPTOR shape = {};
    shape.Width = width;
    shape.Height = height;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 1;
    CUarray array = nullptr;
    EXPECT_EQ(cuArrayCreate_v2(&array, &shape), CUDA_SUCCESS);
    return array;
  }
};

TEST_F(ObjectCallsTest, AnArrayIsDescribedAsItWasMade) {
  const CUarray array = Array(64, 16);
  CUDA_ARRAY3D_DESCRIPTOR shape;
  ASSERT_EQ(cuArray3DGetDescriptor_v2(&shape, array), CUDA_SUCCESS);
  EXPECT_EQ(shape.Width, 64u);
  EXPECT_EQ(shape.Height, 16u);
  EXPECT_EQ(shape.Depth, 0u);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kArrayDestroy), 1);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuArray3DGetDescriptor_v2(&shape, array), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ObjectCallsTest, ArraysAreNoLongerFree) {
  size_t before, with, after, total;
  ASSERT_EQ(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
  const CUarray array = Array(1024, 1024);
  CUDA_ARRAY3D_DESCRIPTOR shape;
  ASSERT_EQ(cuArray3DGetDescriptor_v2(&shape, array), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&with, &total), CUDA_SUCCESS);
  EXPECT_GE(before - with, size_t{1024} * 1024);
  ASSERT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
}

TEST_F(ObjectCallsTest, ArraysWithoutMemoryAreRefused) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array;
  EXPECT_EQ(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
  shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  EXPECT_EQ(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(session().Count(CommandId::kArrayCreate), 0);
}

TEST_F(ObjectCallsTest, RowsGoToAnArrayInPartsThatFitACommand) {
  const CUarray array = Array(1024, 1024);
  std::vector<char> host(4 << 20, 1);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = 4096;
  copy.Height = 1024;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToArray), 8);
  const auto last = session().Latest<cmd::CopyToArray>();
  EXPECT_EQ(last.y, 896u);
  EXPECT_EQ(last.height, 128u);
  copy.dstXInBytes = 4;
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstXInBytes = 2;
  copy.WidthInBytes = 4;
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
}

TEST_F(ObjectCallsTest, RunsComeFromAnArrayOfOneDimension) {
  const CUarray array = Array(64, 0);
  char host[16] = {};
  ASSERT_EQ(cuMemcpyAtoH_v2(host, array, 8, sizeof(host)), CUDA_SUCCESS);
  EXPECT_EQ(host[15], 0x5a);
  EXPECT_EQ(session().Latest<cmd::CopyFromArray>().x, 8u);
  EXPECT_EQ(cuMemcpyAtoH_v2(host, array, 252, 8), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr memory;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 256), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoA_v2(array, 0, memory, 256), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoA_v2(array, 0, memory + 4, 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Latest<cmd::CopyDeviceToArray>().src, memory);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
}

TEST_F(ObjectCallsTest, ALevelHasOneHandleAndEndsWithItsArray) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 16;
  shape.Height = 8;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUmipmappedArray whole;
  ASSERT_EQ(cuMipmappedArrayCreate(&whole, &shape, 3), CUDA_SUCCESS);
  CUarray level, again;
  ASSERT_EQ(cuMipmappedArrayGetLevel(&level, whole, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMipmappedArrayGetLevel(&again, whole, 1), CUDA_SUCCESS);
  EXPECT_EQ(level, again);
  EXPECT_EQ(cuMipmappedArrayGetLevel(&again, whole, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Count(CommandId::kArrayPart), 1);
  EXPECT_EQ(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuMipmappedArrayDestroy(whole), CUDA_SUCCESS);
  CUDA_ARRAY_DESCRIPTOR flat;
  EXPECT_EQ(cuArrayGetDescriptor_v2(&flat, level), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ObjectCallsTest, ATextureObjectIsWhatTheServerSays) {
  const CUarray array = Array(64, 16);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC options = {};
  options.borderColor[3] = 0.5f;
  CUtexObject object;
  ASSERT_EQ(cuTexObjectCreate(&object, &resource, &options, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(object, FakeSession::kFirstTexture);
  EXPECT_EQ(session().Latest<cmd::TextureCreate>().border[3], 0.5f);
  CUDA_RESOURCE_DESC back;
  ASSERT_EQ(cuTexObjectGetResourceDesc(&back, object), CUDA_SUCCESS);
  EXPECT_EQ(back.res.array.hArray, array);
  CUDA_TEXTURE_DESC options_back;
  ASSERT_EQ(cuTexObjectGetTextureDesc(&options_back, object), CUDA_SUCCESS);
  EXPECT_EQ(options_back.borderColor[3], 0.0f);
  CUDA_RESOURCE_VIEW_DESC view;
  EXPECT_EQ(cuTexObjectGetResourceViewDesc(&view, object), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuSurfObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuSurfObjectDestroy(0), CUDA_SUCCESS);
  EXPECT_EQ(cuTexObjectDestroy(object), CUDA_SUCCESS);
  EXPECT_EQ(cuTexObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
  // The end of the context ends its objects.
  ASSERT_EQ(cuTexObjectCreate(&object, &resource, &options, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kTextureDestroy), 2);
  EXPECT_EQ(session().Count(CommandId::kArrayDestroy), 1);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
}

TEST_F(ObjectCallsTest, TexturesAreOfMemoryThatIsThere) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = 0x1000;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 256;
  CUDA_TEXTURE_DESC options = {};
  CUtexObject object;
  EXPECT_EQ(cuTexObjectCreate(&object, &resource, &options, nullptr), CUDA_ERROR_INVALID_VALUE);
  resource.flags = 1;
  EXPECT_EQ(cuTexObjectCreate(&object, &resource, &options, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Count(CommandId::kTextureCreate), 0);
  // A texture that claims to be longer than its memory ends with it.
  resource.flags = 0;
  CUdeviceptr memory;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 512), CUDA_SUCCESS);
  resource.res.linear.devPtr = memory + 256;
  resource.res.linear.sizeInBytes = 1 << 20;
  ASSERT_EQ(cuTexObjectCreate(&object, &resource, &options, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::TextureCreate>().width, 256u);
}

TEST_F(ObjectCallsTest, TheSameTensorMapIsAskedForOnce) {
  // On the heap: a sanitizer's stack does not keep to their alignment.
  std::vector<CUtensorMap> maps(3);
  CUtensorMap &map = maps[0], &same = maps[1], &other = maps[2];
  const cuuint64_t sizes[] = {64, 64}, strides[] = {256};
  const cuuint32_t box[] = {16, 16}, steps[] = {1, 1};
  const auto encode = [&](CUtensorMap* into, uint64_t address, cuuint32_t rank) {
    return cuTensorMapEncodeTiled(
        into, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, reinterpret_cast<void*>(address), sizes,
        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  ASSERT_EQ(encode(&map, 0x100000, 2), CUDA_SUCCESS);
  ASSERT_EQ(encode(&same, 0x100000, 2), CUDA_SUCCESS);
  ASSERT_EQ(encode(&other, 0x200000, 2), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&map, &same, sizeof(map)), 0);
  EXPECT_NE(std::memcmp(&map, &other, sizeof(map)), 0);
  EXPECT_EQ(session().Count(CommandId::kTensorMapEncode), 2);
  EXPECT_EQ(encode(&map, 0x100000, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(&map, 0x100000, 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(nullptr, 0x100000, 2), CUDA_ERROR_INVALID_VALUE);
  // At any address, as with NVIDIA's driver.
  std::vector<char> bytes(sizeof(map) + 1);
  ASSERT_EQ(encode(reinterpret_cast<CUtensorMap*>(bytes.data() + 1), 0x200000, 2), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(bytes.data() + 1, &other, sizeof(other)), 0);
  ASSERT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(0x300000)), CUDA_SUCCESS);
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::TensorMapEncode>(&tail).address, 0x300000u);
  EXPECT_EQ(tail.size(), sizeof(map));
}

TEST_F(ObjectCallsTest, ALinkGivesItsCodeAndWhatTheLinkerSaid) {
  char info[16] = {}, errors[3] = {};
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {info, reinterpret_cast<void*>(sizeof(info)), errors,
                    reinterpret_cast<void*>(sizeof(errors))};
  CUlinkState state;
  ASSERT_EQ(cuLinkCreate_v2(4, options, values, &state), CUDA_SUCCESS);
  std::string ptx = kPtx;
  EXPECT_EQ(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "one", 0, nullptr,
                             nullptr),
            CUDA_SUCCESS);
  EXPECT_STREQ(info, "info");
  EXPECT_STREQ(errors, "er");
  EXPECT_EQ(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size(), nullptr, 1, options,
                             values),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkAddFile_v2(state, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr),
            CUDA_ERROR_FILE_NOT_FOUND);
  void* code = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(state, &code, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(std::string(static_cast<char*>(code), bytes), "code");
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLinkDestroy), 1);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ObjectCallsTest, AWorkerThatDoesNotKnowALinkGetsItAgain) {
  CUlinkState state;
  ASSERT_EQ(cuLinkCreate_v2(0, nullptr, nullptr, &state), CUDA_SUCCESS);
  std::string ptx = kPtx;
  ASSERT_EQ(
      cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size(), "one", 0, nullptr, nullptr),
      CUDA_SUCCESS);
  const uint64_t former = session().Latest<cmd::LinkAdd>().link;
  session().SetAnswer(CommandId::kLinkComplete,
                      [&](const FakeSession::Sent& sent, std::string* fields) {
                        cmd::LinkComplete command;
                        std::memcpy(&command, sent.body.data(), sizeof(command));
                        if (command.link == former) return CudaResult::kInvalidHandle;
                        const uint64_t size = 4;
                        fields->assign(reinterpret_cast<const char*>(&size), sizeof(size));
                        return CudaResult::kSuccess;
                      });
  void* code = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(state, &code, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(session().Count(CommandId::kLinkCreate), 2);
  EXPECT_EQ(session().Count(CommandId::kLinkAdd), 2);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
