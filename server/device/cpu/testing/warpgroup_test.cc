// Compares wgmma with plain products of the same matrices.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/device/cpu/testing/kernel_fixture.h"
#include "server/device/cpu/testing/warpgroup_matrices.h"

namespace warpline::cpu {
namespace {

constexpr uint32_t kSharedBytes = 48 << 10;
constexpr uint32_t kStartOfB = 8 << 10;

// Where the kernel finds its operands, from the address that it is given on.
constexpr uint64_t kDescriptors = 1 << 16;
constexpr uint64_t kScale = kDescriptors + 16;  // Whether D is added
constexpr uint64_t kRegistersOfA = kDescriptors + 1024;
constexpr uint64_t kRegistersOfD = 1 << 17;

struct Product {
  std::string d = "f32", a = "f16", b = "f16";
  int columns = 8;
  bool a_in_registers = false;
  MatrixLayout a_layout, b_layout{0, false, kStartOfB};
  int sign_a = 1, sign_b = 1;
  bool accumulates = true;
  std::string scale = "%p1";  // %p1 says whether `accumulates`, and %p2 the opposite.
  bool saturates = false;
};

int DepthOf(const Product& product) { return 32 / ElementBytes(product.a); }
bool IsHalf(const Product& product) { return ElementBytes(product.a) == 2; }

// --- The elements.
int A(const Product& product, int row, int k) {
  return (row * 7 + k * 3) % 11 - (product.a == "u8" ? -200 : 5);
}
int B(const Product& product, int column, int k) {
  return (column * 5 + k * 11) % 13 - (product.b == "u8" ? -200 : 6);
}
int InitialD(const Product& product, int row, int column) {
  if (product.saturates) return column % 2 == 0 ? INT32_MAX - 100 : INT32_MIN + 100;
  return (row * 3 + column * 5) % 17 - 8;
}
int64_t FinalD(const Product& product, int row, int column) {
  int64_t sum = 0;
  for (int k = 0; k < DepthOf(product); ++k) {
    sum += int64_t{A(product, row, k)} * B(product, column, k);
  }
  if (product.sign_a != product.sign_b) sum = -sum;
  if (product.accumulates) sum += InitialD(product, row, column);
  if (!product.saturates) return sum;
  return std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
}

int RegisterCount(const Product& product) { return product.columns / (product.d == "f16" ? 4 : 2); }

std::string Vector(const std::string& name, int count) {
  std::vector<std::string> registers;
  for (int i = 0; i < count; ++i) registers.push_back(absl::StrCat(name, i));
  return absl::StrCat("{", absl::StrJoin(registers, ", "), "}");
}

std::string Instruction(const Product& product) {
  std::string text =
      absl::StrCat("wgmma.mma_async.sync.aligned.m64n", product.columns, "k", DepthOf(product), ".",
                   product.d, ".", product.a, ".", product.b, product.saturates ? ".satfinite" : "",
                   " ", Vector("%d", RegisterCount(product)), ", ",
                   product.a_in_registers ? Vector("%a", 4) : "%l3", ", %l4, ", product.scale);
  if (product.d == "s32") return text + ";\n";
  absl::StrAppend(&text, ", ", product.sign_a, ", ", product.sign_b);
  if (!IsHalf(product)) return text + ";\n";
  if (!product.a_in_registers) absl::StrAppend(&text, ", ", product.a_layout.transposed ? 1 : 0);
  return absl::StrCat(text, ", ", product.b_layout.transposed ? 1 : 0, ";\n");
}

// Fills shared memory and the registers of a thread with what the kernel is given; %r1 is the
// thread.
std::string Loads(const Product& product) {
  std::string text = absl::StrCat(
      "ld.param.u64 %l1, [p0];\ncvta.to.global.u64 %l1, %l1;\nmov.u32 %r1, %tid.x;\n"
      "mov.u32 %r7, %ntid.x;\nmov.u32 %r2, %r1;\n"
      "next:\nshl.b32 %r3, %r2, 2;\ncvt.u64.u32 %l2, %r3;\nadd.u64 %l2, %l1, %l2;\n"
      "ld.global.u32 %r4, [%l2];\nmov.u32 %r5, tile;\nadd.u32 %r5, %r5, %r3;\n"
      "st.shared.u32 [%r5], %r4;\nadd.u32 %r2, %r2, %r7;\nsetp.lt.u32 %p0, %r2, ",
      kSharedBytes / 4, ";\n@%p0 bra next;\nfence.proxy.async;\nbar.sync 0;\n");
  // On hardware the tile does not start at 0.
  absl::StrAppend(&text, "ld.global.v2.u64 {%l3, %l4}, [%l1+", kDescriptors,
                  "];\nmov.u32 %r6, tile;\nshr.u32 %r6, %r6, 4;\ncvt.u64.u32 %l6, %r6;\n"
                  "add.u64 %l3, %l3, %l6;\nadd.u64 %l4, %l4, %l6;\nld.global.u32 %r4, [%l1+",
                  kScale, "];\nsetp.ne.u32 %p1, %r4, 0;\nnot.pred %p2, %p1;\n");
  absl::StrAppend(&text, "mul.wide.u32 %l2, %r1, 16;\nadd.u64 %l2, %l1, %l2;\n",
                  "ld.global.v4.u32 ", Vector("%a", 4), ", [%l2+", kRegistersOfA, "];\n");
  const int registers = RegisterCount(product);
  absl::StrAppend(&text, "mul.wide.u32 %l5, %r1, ", 4 * registers, ";\nadd.u64 %l5, %l1, %l5;\n");
  for (int i = 0; i < registers; ++i) {
    absl::StrAppend(&text, "ld.global.b32 %d", i, ", [%l5+", kRegistersOfD + 4 * uint64_t(i),
                    "];\n");
  }
  return text;
}

// `before` and `after` stand around the multiply.
std::string KernelOf(const Product& product, const std::string& before = "",
                     const std::string& after = "") {
  std::string text = absl::StrCat(
      ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0)\n{\n"
      ".shared .align 1024 .b8 tile[",
      kSharedBytes, "];\n.reg .pred %p<4>;\n.reg .b32 %r<9>, %a<4>;\n.reg .b64 %l<9>;\n.reg .",
      product.d == "f32" ? "f32" : "b32", " %d<128>;\n", Loads(product));
  absl::StrAppend(&text, before, "wgmma.fence.sync.aligned;\n", Instruction(product),
                  "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n", after);
  for (int i = 0; i < RegisterCount(product); ++i) {
    absl::StrAppend(&text, "st.global.b32 [%l5+", kRegistersOfD + 4 * uint64_t(i), "], %d", i,
                    ";\n");
  }
  return text + "ret;\n}\n";
}

class WarpgroupTest : public KernelFixture {
 protected:
  void WriteOperands(const Product& product) {
    std::vector<uint8_t> shared(kSharedBytes, 0x55);
    const auto a = [&](int row, int k) { return A(product, row, k); };
    const auto b = [&](int column, int k) { return B(product, column, k); };
    const auto d = [&](int row, int column) { return InitialD(product, row, column); };
    if (!product.a_in_registers) PlaceMatrix(product.a_layout, product.a, 64, a, &shared);
    PlaceMatrix(product.b_layout, product.b, product.columns, b, &shared);
    Write(memory_, shared);
    Write(memory_ + kDescriptors,
          std::vector<uint64_t>{product.a_layout.descriptor(), product.b_layout.descriptor()});
    Write(memory_ + kScale, std::vector<uint32_t>{product.accumulates ? 1u : 0u});
    Write(memory_ + kRegistersOfA, RegistersOfA(product.a, a));
    Write(memory_ + kRegistersOfD, RegistersOfD(product.d, product.columns, d));
  }

  CudaResult Run(const std::string& text, uint32_t threads = kWarpgroupThreads) {
    const CudaResult launched = Launch(Load(text), {1, 1, 1}, {threads, 1, 1}, 0, memory_);
    return launched == CudaResult::kSuccess ? Sync() : launched;
  }

  std::vector<uint32_t> ReadRegistersOfD(const Product& product) {
    return Read<uint32_t>(memory_ + kRegistersOfD,
                          size_t{kWarpgroupThreads} * static_cast<size_t>(RegisterCount(product)));
  }

  void ExpectProduct(const Product& product) {
    const std::vector<uint32_t> registers = ReadRegistersOfD(product);
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < product.columns; ++column) {
        ASSERT_EQ(ElementOfD(product.d, product.columns, registers, row, column),
                  FinalD(product, row, column))
            << Instruction(product) << "mode of A " << product.a_layout.mode << ", of B "
            << product.b_layout.mode << ", row " << row << ", column " << column;
      }
    }
  }

  void Check(const Product& product) {
    WriteOperands(product);
    ASSERT_EQ(Run(KernelOf(product)), CudaResult::kSuccess) << Instruction(product);
    ExpectProduct(product);
  }

  // Runs a valid multiply with other descriptors.
  CudaResult RunWithDescriptors(uint64_t a, uint64_t b) {
    const Product product;
    WriteOperands(product);
    Write(memory_ + kDescriptors, std::vector<uint64_t>{a, b});
    return Run(KernelOf(product));
  }
};

TEST_F(WarpgroupTest, HalvesInEveryLayout) {
  for (uint32_t mode = 0; mode < 4; ++mode) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const int columns : {8, 40, 256}) {
          Product product;
          product.columns = columns;
          product.a_layout = {mode, a_transposed, 0};
          product.b_layout = {mode, b_transposed, kStartOfB};
          Check(product);
        }
      }
    }
  }
}

TEST_F(WarpgroupTest, MatricesOfDifferentModes) {
  Product product;
  product.columns = 96;
  product.a_layout = {3, false, 0};
  product.b_layout = {1, true, kStartOfB};
  Check(product);
}

// As programs do to go on along K: the start lies within the 128 bytes that are swizzled.
TEST_F(WarpgroupTest, MatricesThatStartWithinARow) {
  for (const uint32_t mode : {1, 2}) {
    Product product;
    product.columns = 24;
    product.a_layout = {mode, false, 32};
    product.b_layout = {mode, false, kStartOfB + (mode == 1 ? 96 : 32)};
    Check(product);
  }
}

TEST_F(WarpgroupTest, EveryType) {
  const std::vector<std::vector<std::string>> types = {
      {"f32", "f16", "f16"},   {"f16", "f16", "f16"}, {"f32", "bf16", "bf16"},
      {"f32", "tf32", "tf32"}, {"s32", "s8", "s8"},   {"s32", "s8", "u8"},
      {"s32", "u8", "s8"},     {"s32", "u8", "u8"}};
  for (const std::vector<std::string>& type : types) {
    for (const bool a_in_registers : {false, true}) {
      for (const int columns : {16, 24, 240}) {
        Product product;
        product.d = type[0];
        product.a = type[1];
        product.b = type[2];
        product.columns = columns;
        product.a_in_registers = a_in_registers;
        product.b_layout.mode = 2;
        Check(product);
      }
    }
  }
}

TEST_F(WarpgroupTest, PredicateSaysWhetherDIsAdded) {
  for (const bool accumulates : {false, true}) {
    for (const char* const scale : {"%p1", "!%p2"}) {
      Product product;
      product.accumulates = accumulates;
      product.scale = scale;
      Check(product);
    }
  }
}

TEST_F(WarpgroupTest, SignsOfAAndB) {
  for (const int sign_a : {1, -1}) {
    for (const int sign_b : {1, -1}) {
      Product product;
      product.sign_a = sign_a;
      product.sign_b = sign_b;
      Check(product);
      product.a = product.b = "tf32";
      Check(product);
    }
  }
}

TEST_F(WarpgroupTest, IntegersSaturate) {
  Product product;
  product.d = "s32";
  product.a = product.b = "s8";
  product.columns = 32;
  product.saturates = true;
  Check(product);
}

TEST_F(WarpgroupTest, LowBitsOfTf32AreIgnored) {
  Product product;
  product.a = product.b = "tf32";
  product.a_in_registers = true;
  WriteOperands(product);
  std::vector<uint32_t> a = Read<uint32_t>(memory_ + kRegistersOfA, size_t{4} * kWarpgroupThreads);
  for (uint32_t& word : a) word |= 0x1fff;
  Write(memory_ + kRegistersOfA, a);
  ASSERT_EQ(Run(KernelOf(product)), CudaResult::kSuccess);
  ExpectProduct(product);
}

// The first warp writes over B, while the last one has yet to come to the multiply.
TEST_F(WarpgroupTest, WaitingForAGroupWaitsForAllWarps) {
  Product product;
  product.sign_b = -1;
  WriteOperands(product);
  const std::string delay =
      "setp.lt.u32 %p3, %r1, 96;\n@%p3 bra go;\nmov.u32 %r2, 0;\nspin:\n"
      "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 100000;\n@%p3 bra spin;\ngo:\n";
  const std::string overwrite = absl::StrCat(
      "setp.lt.u32 %p3, %r1, 32;\nshl.b32 %r2, %r1, 4;\nmov.u32 %r3, tile;\n"
      "add.u32 %r2, %r2, %r3;\nmov.u32 %r3, 0;\n@%p3 st.shared.v4.u32 [%r2+",
      kStartOfB, "], {%r3, %r3, %r3, %r3};\n");
  ASSERT_EQ(Run(KernelOf(product, delay, overwrite)), CudaResult::kSuccess);
  ExpectProduct(product);
}

TEST_F(WarpgroupTest, AllOfAMatrixMustBeInSharedMemory) {
  const MatrixLayout valid{0, false, 0};
  MatrixLayout last{0, false, kSharedBytes - 256};
  EXPECT_EQ(RunWithDescriptors(valid.descriptor(), last.descriptor()), CudaResult::kSuccess);
  last.start += 16;
  EXPECT_EQ(RunWithDescriptors(valid.descriptor(), last.descriptor()), CudaResult::kIllegalAddress);
}

TEST_F(WarpgroupTest, StrideThatLeadsOutOfSharedMemoryFaults) {
  const uint64_t b = MatrixLayout{0, false, kStartOfB}.descriptor();
  EXPECT_EQ(RunWithDescriptors(b | uint64_t{0x3fff} << 32, b), CudaResult::kIllegalAddress);
}

TEST_F(WarpgroupTest, DescriptorOfAllBitsButTheBaseOffsetFaults) {
  const uint64_t all = ~(uint64_t{7} << 49);
  EXPECT_EQ(RunWithDescriptors(all, all), CudaResult::kIllegalAddress);
}

TEST_F(WarpgroupTest, BaseOffsetOfASwizzledMatrixFaults) {
  const uint64_t valid = MatrixLayout{0, false, 0}.descriptor();
  const uint64_t b = MatrixLayout{1, false, kStartOfB}.descriptor() | uint64_t{1} << 49;
  EXPECT_EQ(RunWithDescriptors(valid, b), CudaResult::kIllegalInstruction);
}

TEST_F(WarpgroupTest, PartOfAWarpgroupFaults) {
  const Product product;
  WriteOperands(product);
  EXPECT_EQ(Run(KernelOf(product), 96), CudaResult::kIllegalInstruction);
}

TEST_F(WarpgroupTest, PartOfAWarpFaults) {
  const Product product;
  WriteOperands(product);
  const std::string leave = "setp.eq.u32 %p3, %r1, 5;\n@%p3 exit;\n";
  EXPECT_EQ(Run(KernelOf(product, leave)), CudaResult::kIllegalInstruction);
}

}  // namespace
}  // namespace warpline::cpu
