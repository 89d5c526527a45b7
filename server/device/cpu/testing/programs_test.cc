// Tests kernels compiled by nvcc bit for bit against what an H200 answered.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

constexpr char kPtxPath[] = "server/device/cpu/testing/programs_ptx/programs.ptx";
constexpr size_t kWords = 4096;

struct Program {
  const char* name;
  uint64_t hash;  // FNV-1a of the 4096 words that hardware wrote
};

uint64_t Hash(const std::vector<uint32_t>& words) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (word >> shift & 0xff)) * 0x100000001b3;
    }
  }
  return hash;
}

std::vector<uint32_t> Inputs() {
  std::vector<uint32_t> words(kWords);
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t x = i + 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    words[i] = static_cast<uint32_t>((x ^ x >> 31) >> 16);
  }
  return words;
}

class ProgramsTest : public KernelFixture, public ::testing::WithParamInterface<Program> {};

TEST_P(ProgramsTest, AgreesWithHardware) {
  std::ifstream in(kPtxPath);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (text.empty()) GTEST_SKIP() << "built without a CUDA toolkit";
  const device::KernelId kernel = Load(text, GetParam().name);
  const uint64_t out = memory_ + (1 << 20);
  Write(memory_, Inputs());
  ASSERT_EQ(Launch(kernel, {16, 1, 1}, {256, 1, 1}, 1024, memory_, out), CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(Hash(Read<uint32_t>(out, kWords)), GetParam().hash);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, ProgramsTest,
    ::testing::Values(
        Program{"block_reduce", 0x719011f1588e8d93}, Program{"warp_scan", 0x2c9d7a5959cf39b1},
        Program{"histogram", 0xf53b8bd11c9e0b13}, Program{"warp_aggregate", 0x6454e2c889f92f41},
        Program{"collatz", 0x7b0c0f273ee62499}, Program{"ackermann", 0x2e4c27ea676b061b},
        Program{"insertion_sort", 0x1d61a6c16a0d6277}, Program{"switches", 0x5e8beab741bcc0bc},
        Program{"wide_integers", 0x153994682ca1371c}, Program{"doubles", 0x641e9b65df14bc5c},
        Program{"double_functions", 0x56acab8a030a9a9d},
        Program{"float_functions", 0x0f94a92c6e7bec2d}, Program{"conversions", 0x5ed445f43605b732},
        Program{"structures", 0xba4c3742adf64dba}, Program{"tiled_matmul", 0xb0af92bf65338c9b},
        Program{"spin_lock", 0xc6904a4d7a02f325}, Program{"bitonic", 0x629b3d8fc005a093}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace warpline::cpu
