// Tensor maps: encoding, refusals, and a kernel that loads a tile with one.
#include "setting.h"

namespace conformance {
namespace {

// Copies a tile of 16 by 16 words to shared memory with the map, and from there to `out`.
constexpr char kTile[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
  .reg .b32 %r<12>;
  .reg .b64 %rd<8>;
  .reg .pred %p<3>;
  .shared .align 128 .b8 buffer[1024];
  .shared .align 8 .b8 barrier[8];
  mov.u32 %r1, buffer;
  mov.u32 %r2, barrier;
  ld.param.u32 %r3, [x];
  ld.param.u32 %r4, [y];
  ld.param.u64 %rd4, [out];
  cvta.to.global.u64 %rd4, %rd4;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd2, %rd1;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r2], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, %r4}], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
  @!%p1 bra WAIT;
  mov.u32 %r5, 0;
COPY:
  ld.shared.u32 %r6, [%r1];
  st.global.u32 [%rd4], %r6;
  add.u32 %r1, %r1, 4;
  add.u64 %rd4, %rd4, 4;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 256;
  @%p2 bra COPY;
  ret;
}
)";

constexpr cuuint64_t kWidth = 64, kHeight = 48;

// The parameters of a map of 64 by 48 words. Each check changes one of them.
struct Tiled {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
  cuuint32_t rank = 2;
  void* address = nullptr;
  cuuint64_t sizes[5] = {kWidth, kHeight, 1, 1, 1};
  cuuint64_t strides[5] = {kWidth * 4, kWidth * 4 * kHeight, kWidth * 4 * kHeight,
                           kWidth * 4 * kHeight};
  cuuint32_t box[5] = {16, 16, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;

  bool Encode(const char* check, CUresult expected, CUtensorMap* map) const {
    // Mistakes that the client finds by itself are refused with the documented error everywhere.
    if (on_cpu()) {
      return REFUSED(check, expected, cuTensorMapEncodeTiled, map, type, rank, address, sizes,
                     strides, box, steps, interleave, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    return CALL(check, expected, cuTensorMapEncodeTiled, map, type, rank, address, sizes, strides,
                box, steps, interleave, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
};

bool Memory(CUdeviceptr* memory) {
  Mark("cuMemAlloc", "setup");
  if (!Setup(CU(cuMemAlloc)(memory, kWidth * kHeight * 4))) return false;
  std::vector<unsigned> words(kWidth * kHeight);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<unsigned>(i * 7 + 1);
  Mark("cuMemcpyHtoD", "setup");
  return Setup(CU(cuMemcpyHtoD)(*memory, words.data(), words.size() * 4));
}

void RunTile(CUfunction kernel, CUtensorMap* map, CUdeviceptr out, const char* check) {
  unsigned x = 8, y = 4;
  void* parameters[] = {map, &out, &x, &y};
  if (!CALL(check, CUDA_SUCCESS, cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
            nullptr)) {
    return;
  }
  std::vector<unsigned> words(256);
  SETUP(cuMemcpyDtoH, words.data(), out, 1024);
  size_t wrong = 0;
  for (unsigned i = 0; i < 256; ++i) {
    wrong += words[i] != ((y + i / 16) * kWidth + x + i % 16) * 7 + 1;
  }
  HOLDS(cuTensorMapEncodeTiled, check, wrong == 0, "%zu of 256 words are wrong", wrong);
}

void Tiles() {
  if (!Begin()) return;
  CUdeviceptr memory = 0, copy = 0, out = 0;
  if (!Memory(&memory) || !Memory(&copy)) return;
  SETUP(cuMemAlloc, &out, 1024);
  alignas(64) CUtensorMap map = {}, same = {}, other = {};
  Tiled tiled;
  tiled.address = reinterpret_cast<void*>(memory);
  if (!tiled.Encode("64 by 48 words", CUDA_SUCCESS, &map)) return;
  tiled.Encode("again", CUDA_SUCCESS, &same);
  HOLDS(cuTensorMapEncodeTiled, "the same twice", std::memcmp(&map, &same, sizeof(map)) == 0,
        "two maps of the same differ");
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  SETUP(cuModuleLoadData, &module, kTile);
  if (!Kernel(&kernel, module, "tile")) return;
  RunTile(kernel, &map, out, "a tile");
  other = map;
  SETUP(cuMemsetD32, memory, 0, kWidth * kHeight);
  if (CALL("a copy", CUDA_SUCCESS, cuTensorMapReplaceAddress, &other,
           reinterpret_cast<void*>(copy))) {
    RunTile(kernel, &other, out, "a tile at another address");
    Tiled moved;
    moved.address = reinterpret_cast<void*>(copy);
    moved.Encode("of the copy", CUDA_SUCCESS, &same);
    HOLDS(cuTensorMapReplaceAddress, "as if encoded", std::memcmp(&other, &same, sizeof(map)) == 0,
          "differs from a map of that address");
  }
  tiled.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  tiled.Encode("swizzled", CUDA_SUCCESS, &other);
  HOLDS(cuTensorMapEncodeTiled, "swizzled is another", std::memcmp(&map, &other, sizeof(map)) != 0,
        "the swizzle changes nothing");
}

void TiledErrors() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  if (!Memory(&memory)) return;
  alignas(64) CUtensorMap maps[2] = {};
  CUtensorMap* const map = &maps[0];
  Tiled good;
  good.address = reinterpret_cast<void*>(memory);
  const auto fails = [&](const char* check, const auto& change) {
    Tiled tiled = good;
    change(&tiled);
    tiled.Encode(check, CUDA_ERROR_INVALID_VALUE, map);
  };
  // The client finds this.
  CALL("no map", CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled, nullptr, good.type, good.rank,
       good.address, good.sizes, good.strides, good.box, good.steps, good.interleave, good.swizzle,
       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CALL("no sizes", CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled, map, good.type, good.rank,
       good.address, nullptr, good.strides, good.box, good.steps, good.interleave, good.swizzle,
       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CALL("rank 0", CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled, map, good.type, 0, good.address,
       good.sizes, good.strides, good.box, good.steps, good.interleave, good.swizzle,
       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CALL("rank 6", CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled, map, good.type, 6, good.address,
       good.sizes, good.strides, good.box, good.steps, good.interleave, good.swizzle,
       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  // NVIDIA's driver writes to the address that it is given, and crashes.
  if (!native()) {
    CALL("no map", CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress, nullptr, good.address);
  }
  // The driver finds this.
  fails("unaligned address", [&](Tiled* t) { t->address = reinterpret_cast<void*>(memory + 8); });
  fails("size 0", [](Tiled* t) { t->sizes[1] = 0; });
  fails("size beyond 32 bits", [](Tiled* t) { t->sizes[1] = (1ull << 32) + 1; });
  fails("stride of 8", [](Tiled* t) { t->strides[0] = kWidth * 4 + 8; });
  fails("stride beyond 40 bits", [](Tiled* t) { t->strides[0] = 1ull << 40; });
  fails("box 0", [](Tiled* t) { t->box[0] = 0; });
  fails("box 257", [](Tiled* t) { t->box[1] = 257; });
  fails("box rows of 12 bytes", [](Tiled* t) { t->box[0] = 3; });
  fails("step 0", [](Tiled* t) { t->steps[1] = 0; });
  fails("step 9", [](Tiled* t) { t->steps[1] = 9; });
  fails("unknown type", [](Tiled* t) { t->type = static_cast<CUtensorMapDataType>(99); });
  fails("interleaved of rank 2", [](Tiled* t) { t->interleave = CU_TENSOR_MAP_INTERLEAVE_16B; });
  fails("box wider than its swizzle", [](Tiled* t) { t->swizzle = CU_TENSOR_MAP_SWIZZLE_32B; });
}

void Im2col() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, 1 << 20);
  alignas(64) CUtensorMap map = {};
  // 2 images of 16 by 16 pixels with 64 channels of half precision.
  const cuuint64_t sizes[] = {64, 16, 16, 2};
  const cuuint64_t strides[] = {128, 128 * 16, 128 * 256};
  const int lower[] = {-1, -1}, upper[] = {-1, -1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  void* const address = reinterpret_cast<void*>(memory);
  const auto encode = [&](const char* check, CUresult expected, cuuint32_t rank,
                          cuuint32_t pixels) {
    if (on_cpu()) {
      return REFUSED(check, expected, cuTensorMapEncodeIm2col, &map,
                     CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, address, sizes, strides, lower, upper,
                     64, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    return CALL(check, expected, cuTensorMapEncodeIm2col, &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                rank, address, sizes, strides, lower, upper, 64, pixels, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  encode("2 images", CUDA_SUCCESS, 4, 64);
  encode("too many pixels", CUDA_ERROR_INVALID_VALUE, 4, 1025);
  CALL("rank 2", CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeIm2col, &map,
       CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, address, sizes, strides, lower, upper, 64, 64, steps,
       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "tensor_maps",
             {{"tiles", Tiles}, {"tiled_errors", TiledErrors}, {"im2col", Im2col}});
}
