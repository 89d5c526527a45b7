// Tests kernels compiled by nvcc that print, assert, allocate, meet across the grid and call
// through pointers.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

constexpr char kPtxPath[] = "server/device/cpu/testing/system_ptx/system.ptx";

// Captures what goes to a descriptor while this lives.
class Capture {
 public:
  explicit Capture(int descriptor)
      : descriptor_(descriptor), saved_(dup(descriptor)), file_(memfd_create("output", 0)) {
    std::fflush(nullptr);
    dup2(file_, descriptor_);
  }
  ~Capture() {
    dup2(saved_, descriptor_);
    close(saved_);
    close(file_);
  }
  std::string Text() const {
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    const ssize_t got = pread(file_, text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

 private:
  const int descriptor_, saved_, file_;
};

class SystemTest : public KernelFixture {
 protected:
  void SetUp() override {
    KernelFixture::SetUp();
    std::ifstream in(kPtxPath);
    text_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (text_.empty()) GTEST_SKIP() << "built without a CUDA toolkit";
  }

  template <typename... Args>
  CudaResult Cooperate(const char* name, uint32_t blocks, uint32_t threads, Args... args) {
    device::LaunchConfig config;
    config.grid = {blocks, 1, 1};
    config.block = {threads, 1, 1};
    config.cooperative = true;
    return Launch(Load(text_, name), config, Pack(args...));
  }

  template <typename... Args>
  CudaResult Run(const char* name, uint32_t threads, Args... args) {
    const CudaResult launched = Launch(Load(text_, name), {1, 1, 1}, {threads, 1, 1}, 0, args...);
    return launched == CudaResult::kSuccess ? Sync() : launched;
  }

  uint32_t MaxBlocks(const char* name, uint32_t threads) {
    int per = 0;
    EXPECT_EQ(context_->MaxActiveBlocks(Load(text_, name), static_cast<int>(threads), 0, 0, &per),
              CudaResult::kSuccess);
    const auto info = backend_->Info(0);
    for (const auto& [id, value] : info->attributes) {
      if (id == 16) return static_cast<uint32_t>(per * value);
    }
    return 0;
  }

  std::string text_;
};

TEST_F(SystemTest, PrintfWritesInOrderAndReturnsItsArguments) {
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    char line[128];
    std::snprintf(line, sizeof(line), "thread %d of %u: %s %.2f %c %lld %%\n", i, 40u,
                  i & 1 ? "odd" : "even", 3.5, 'x', -7ll);
    expected += line;
  }
  const Capture out(1);
  EXPECT_EQ(Run("prints", 40, memory_, int32_t{7}), CudaResult::kSuccess);
  EXPECT_EQ(context_->FlushOutput(), CudaResult::kSuccess);
  EXPECT_EQ(out.Text(), expected);
  EXPECT_EQ(Read<int32_t>(memory_, 40), std::vector<int32_t>(40, 6));
}

TEST_F(SystemTest, PrintfKeepsTheLatestWhenItsBufferIsFull) {
  EXPECT_EQ(context_->SetLimit(1, 10ull * (16 + 8 * 6)), CudaResult::kSuccess);
  const Capture out(1);
  EXPECT_EQ(Run("prints", 40, memory_, int32_t{7}), CudaResult::kSuccess);
  const std::string text = out.Text();
  EXPECT_EQ(text.rfind("thread 30 of 40", 0), 0u) << text;
  EXPECT_NE(text.find("thread 39 of 40"), std::string::npos);
}

TEST_F(SystemTest, AssertPrintsAndStaysAnError) {
  std::string err;
  {
    const Capture capture(2);
    ASSERT_EQ(Launch(Load(text_, "asserts"), {1, 1, 1}, {2, 2, 1}, 0, int32_t{11}),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(), CudaResult::kAssert);
    err = capture.Text();
  }
  EXPECT_NE(err.find("system.cu:"), std::string::npos) << err;
  EXPECT_NE(
      err.find(": void asserts(int): block: [0,0,0], thread: [1,1,0] Assertion `threadIdx.x + 10 "
               "* threadIdx.y < limit` failed.\n"),
      std::string::npos)
      << err;
  EXPECT_EQ(err.find("thread: [0,0,0]"), std::string::npos);
  EXPECT_EQ(context_->FlushOutput(), CudaResult::kAssert);
}

TEST_F(SystemTest, TrapFailsTheLaunch) {
  EXPECT_EQ(Run("traps", 1, memory_), CudaResult::kLaunchFailed);
}

TEST_F(SystemTest, GridOfAllResidentBlocksMeets) {
  const uint32_t threads = 64, blocks = MaxBlocks("grid_rotate", threads);
  ASSERT_GT(blocks, 1u);
  ASSERT_EQ(Cooperate("grid_rotate", blocks, threads, memory_, int32_t{4}), CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  const uint32_t all = blocks * threads;
  const std::vector<int32_t> got = Read<int32_t>(memory_, all);
  for (uint32_t i = 0; i < all; ++i) {
    ASSERT_EQ(got[i], static_cast<int32_t>((i + 4 * (threads + 1)) % all)) << i;
  }
}

TEST_F(SystemTest, GridWideSum) {
  std::vector<int32_t> in(5000);
  std::iota(in.begin(), in.end(), -100);
  Write(memory_, in);
  const uint64_t partial = memory_ + (1 << 20), out = memory_ + (2 << 20);
  ASSERT_EQ(Cooperate("grid_sum", MaxBlocks("grid_sum", 128), 128, memory_, partial, out,
                      static_cast<int32_t>(in.size())),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(Read<int32_t>(out, 1)[0], std::accumulate(in.begin(), in.end(), 0));
}

TEST_F(SystemTest, CooperativeGridBeyondResidentBlocksIsTooLarge) {
  EXPECT_EQ(Cooperate("grid_rotate", MaxBlocks("grid_rotate", 64) + 1, 64, memory_, int32_t{1}),
            CudaResult::kCooperativeLaunchTooLarge);
}

TEST_F(SystemTest, GridSyncOutsideACooperativeLaunchTraps) {
  EXPECT_EQ(Run("grid_rotate", 32, memory_, int32_t{1}), CudaResult::kLaunchFailed);
}

TEST_F(SystemTest, TilesAndCoalescedGroups) {
  ASSERT_EQ(Run("groups", 64, memory_), CudaResult::kSuccess);
  const std::vector<int32_t> got = Read<int32_t>(memory_, 64);
  for (int t = 0; t < 64; ++t) {
    const int first = t & ~7;
    int s = 8 * first + 28;
    int scan = 0;
    for (int i = 0; i <= (t & 7); ++i) scan += i;
    s = (s * 1000 + scan) * 10 + 4;
    if (t & 2) {
      int rank = 0;
      for (int i = t & ~31; i < t; ++i) rank += (i & 2) != 0;
      s = s * 100 + rank;
    }
    EXPECT_EQ(got[static_cast<size_t>(t)], s) << t;
  }
}

TEST_F(SystemTest, VirtualFunctionsOfObjectsOnTheHeap) {
  ASSERT_EQ(Run("virtuals", 64, memory_), CudaResult::kSuccess);
  const std::vector<int32_t> got = Read<int32_t>(memory_, 64);
  for (int t = 0; t < 64; ++t) {
    EXPECT_EQ(got[static_cast<size_t>(t)], t % 3 == 0 ? t * t : t * (t % 3 + 4)) << t;
  }
}

TEST_F(SystemTest, CallsThroughATableOfFunctions) {
  ASSERT_EQ(Run("pointers", 64, memory_), CudaResult::kSuccess);
  const std::vector<int32_t> got = Read<int32_t>(memory_, 64);
  for (int t = 0; t < 64; ++t) {
    EXPECT_EQ(got[static_cast<size_t>(t)], t % 3 == 0 ? t + 1 : t % 3 == 1 ? 2 * t : t) << t;
  }
}

TEST_F(SystemTest, CallOfWhatIsNoFunctionFaults) {
  EXPECT_EQ(Run("wild_call", 1, uint64_t{0x1234}, memory_), CudaResult::kInvalidPc);
}

TEST_F(SystemTest, MallocGivesMemoryUntilTheHeapIsFull) {
  EXPECT_EQ(Run("heap", 64, memory_, uint64_t{1000}), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint64_t>(memory_, 64), std::vector<uint64_t>(64, 2));
  EXPECT_EQ(Run("heap", 1, memory_, uint64_t{64} << 20), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint64_t>(memory_, 1)[0], 0u);
  EXPECT_EQ(Run("hoard", 1, memory_), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint64_t>(memory_, 1)[0], (8u << 20) / (1u << 16));
}

TEST_F(SystemTest, HeapHasTheSizeOfItsLimit) {
  EXPECT_EQ(context_->SetLimit(2, 1 << 20), CudaResult::kSuccess);
  EXPECT_EQ(Run("hoard", 1, memory_), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint64_t>(memory_, 1)[0], 16u);
  // As in CUDA, it is too late once a kernel has allocated.
  EXPECT_EQ(context_->SetLimit(2, 2 << 20), CudaResult::kInvalidValue);
}

TEST_F(SystemTest, FreeOfForeignMemoryFaults) {
  EXPECT_EQ(Run("bad_free", 1, memory_), CudaResult::kIllegalAddress);
}

TEST_F(SystemTest, RecursionGoesAsDeepAsTheStackLimitAllows) {
  EXPECT_EQ(Run("recursion", 1, memory_, int32_t{100}), CudaResult::kSuccess);
  EXPECT_EQ(Read<int32_t>(memory_, 1)[0], 101);
  ASSERT_EQ(context_->SetLimit(0, 64 << 10), CudaResult::kSuccess);
  EXPECT_EQ(Run("recursion", 1, memory_, int32_t{1000}), CudaResult::kSuccess);
  ASSERT_EQ(context_->SetLimit(0, 1024), CudaResult::kSuccess);
  EXPECT_EQ(Run("recursion", 1, memory_, int32_t{1000}), CudaResult::kHardwareStackError);
}

TEST_F(SystemTest, LimitsHaveCudasDefaults) {
  const std::vector<std::pair<int, uint64_t>> limits = {{0, 1024}, {1, 1 << 20}, {2, 8 << 20}};
  for (const auto& [limit, expected] : limits) {
    uint64_t value = 0;
    EXPECT_EQ(context_->GetLimit(limit, &value), CudaResult::kSuccess);
    EXPECT_EQ(value, expected) << limit;
  }
  uint64_t value = 0;
  EXPECT_EQ(context_->GetLimit(99, &value), CudaResult::kUnsupportedLimit);
  EXPECT_EQ(context_->SetLimit(99, 1), CudaResult::kUnsupportedLimit);
  EXPECT_EQ(context_->SetLimit(0, uint64_t{1} << 40), CudaResult::kInvalidValue);
}

}  // namespace
}  // namespace warpline::cpu
