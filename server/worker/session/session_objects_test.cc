// Tests links, arrays, textures and tensor maps: what reaches the device, and what is refused.
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_types.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kFloat = 0x20;

class SessionObjectsTest : public SessionTest {
 protected:
  CudaResult ResultOf(uint64_t seq) {
    CudaResult result;
    replies_.Wait(seq, &result);
    return result;
  }

  void AddArray(uint64_t handle) { Add(cmd::ArrayCreate{handle, 64, 16, 0, kFloat, 1, 0, 0}); }
};

// Has `left` bytes to give.
class Purse : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t, uint64_t bytes) override {
    if (bytes > left) return CudaResult::kOutOfMemory;
    left -= bytes;
    return CudaResult::kSuccess;
  }
  void Uncharge(uint32_t, uint64_t bytes) override { left += bytes; }
  std::atomic<uint64_t> left{1u << 20};
};

TEST_F(SessionObjectsTest, ALinkTakesInputsAndGivesItsCodeInParts) {
  Add(cmd::LinkCreate{3});
  Add(cmd::ImageData{4, 4, 0}, "code");
  Add(cmd::LinkAdd{3, 4, 1, 4}, "name");
  Add(cmd::ImageData{5, 3, 0}, "bad");
  const uint64_t bad = Add(cmd::LinkAdd{3, 5, 1, 0});
  const uint64_t log = Add(cmd::LinkLog{3});
  const uint64_t complete = Add(cmd::LinkComplete{3});
  const uint64_t first = Add(cmd::LinkRead{3, 0});
  const uint64_t second = Add(cmd::LinkRead{3, 256u << 10});
  const uint64_t beyond = Add(cmd::LinkRead{3, 300u << 10});
  Add(cmd::LinkDestroy{3});
  const uint64_t after = Add(cmd::LinkLog{3});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(bad), CudaResult::kInvalidPtx);
  EXPECT_EQ(replies_.Wait(log).substr(sizeof(cmd::LinkLogReply)),
            "name added; added;no such instruction");
  cmd::LinkCompleteReply reply;
  std::string body = replies_.Wait(complete);
  std::string_view rest = body;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.bytes, 300u << 10);
  EXPECT_EQ(replies_.Wait(first).size(), 256u << 10);
  EXPECT_EQ(replies_.Wait(second).size(), 44u << 10);
  EXPECT_EQ(ResultOf(beyond), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(after), CudaResult::kInvalidHandle);
}

TEST_F(SessionObjectsTest, ALinkIsNotMadeOfWhatIsNotThere) {
  Add(cmd::LinkCreate{3});
  const uint64_t no_image = Add(cmd::LinkAdd{3, 4, 1, 0});
  Add(cmd::ImageData{5, 4, 0}, "co");
  const uint64_t half_image = Add(cmd::LinkAdd{3, 5, 1, 0});
  Add(cmd::ImageData{6, 2, 0}, "co");
  const uint64_t no_name = Add(cmd::LinkAdd{3, 6, 1, 9}, "short");
  const uint64_t no_link = Add(cmd::LinkComplete{7});
  const uint64_t bad_option = Add(cmd::LinkCreate{8}, "half");
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(no_image), CudaResult::kInvalidHandle);
  EXPECT_EQ(ResultOf(half_image), CudaResult::kInvalidHandle);
  EXPECT_EQ(ResultOf(no_name), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(no_link), CudaResult::kInvalidHandle);
  EXPECT_EQ(ResultOf(bad_option), CudaResult::kInvalidValue);
}

// The array has 64 x 16 elements of 4 bytes. What a driver makes of sums that overflow is not
// tried.
TEST_F(SessionObjectsTest, BoxesBeyondTheirArrayDoNotReachTheDevice) {
  AddArray(3);
  struct Box {
    uint64_t x, y, z, width, height, depth;
  };
  const uint64_t most = ~uint64_t{0};
  const Box boxes[] = {{0, 0, 0, 260, 1, 1},     {256, 0, 0, 4, 1, 1},  {0, 0, 0, 4, 17, 1},
                       {0, 16, 0, 4, 1, 1},      {0, 0, 1, 4, 1, 1},    {0, 0, 0, 4, 1, 2},
                       {most, 0, 0, 4, 1, 1},    {0, most, 0, 4, 2, 1}, {0, 0, most, 4, 1, 2},
                       {most - 3, 0, 0, 8, 1, 1}};
  std::vector<uint64_t> refused, failed;
  for (const Box& b : boxes) {
    failed.push_back(Add(cmd::CopyToArray{1, 3, b.x, b.y, b.z, b.width, b.height, b.depth},
                         std::string(b.width * b.height * b.depth, 'x')));
    failed.push_back(Add(
        cmd::CopyDeviceToArray{1, 3, b.x, b.y, b.z, 4096, 512, 16384, b.width, b.height, b.depth}));
    failed.push_back(Add(
        cmd::CopyArrayToDevice{1, 8192, 512, 16384, 3, b.x, b.y, b.z, b.width, b.height, b.depth}));
    failed.push_back(
        Add(cmd::CopyArrayToArray{1, 3, b.x, b.y, b.z, 3, 0, 0, 0, b.width, b.height, b.depth}));
    failed.push_back(
        Add(cmd::CopyArrayToArray{1, 3, 0, 0, 0, 3, b.x, b.y, b.z, b.width, b.height, b.depth}));
    refused.push_back(Add(cmd::CopyFromArray{1, 3, b.x, b.y, b.z, b.width, b.height, b.depth}));
  }
  const uint64_t whole = Add(cmd::CopyFromArray{1, 3, 0, 0, 0, 256, 16, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(whole), CudaResult::kSuccess);
  for (const uint64_t seq : refused) EXPECT_EQ(ResultOf(seq), CudaResult::kInvalidValue) << seq;
  for (const uint64_t seq : failed) EXPECT_TRUE(replies_.Has(ReplyId::kFailed, seq)) << seq;
  EXPECT_THAT(context_.log(), ElementsAre("array@0 64x16 levels=0", "array-copy@1 array20>host"));
}

TEST_F(SessionObjectsTest, CopiesOfArraysNameBothEnds) {
  AddArray(3);
  Add(cmd::CopyToArray{1, 3, 0, 0, 0, 4, 1, 1}, "data");
  Add(cmd::CopyDeviceToArray{1, 3, 0, 0, 0, 4096, 256, 256, 4, 1, 1});
  Add(cmd::CopyArrayToDevice{1, 8192, 256, 256, 3, 0, 0, 0, 4, 1, 1});
  Add(cmd::CopyArrayToArray{1, 3, 0, 0, 0, 3, 4, 0, 0, 4, 1, 1});
  const uint64_t out = Add(cmd::CopyFromArray{1, 3, 0, 0, 0, 4, 2, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(out), CudaResult::kSuccess);
  EXPECT_THAT(context_.log(),
              ElementsAre("array@0 64x16 levels=0", "array-copy@1 host>array20",
                          "array-copy@1 4096>array20", "array-copy@1 array20>8192",
                          "array-copy@1 array20>array20", "array-copy@1 array20>host"));
}

TEST_F(SessionObjectsTest, CopiesThatCannotBeAreRefused) {
  AddArray(3);
  const uint64_t no_array = Add(cmd::CopyFromArray{1, 9, 0, 0, 0, 4, 1, 1});
  const uint64_t nothing = Add(cmd::CopyFromArray{1, 3, 0, 0, 0, 0, 1, 1});
  const uint64_t huge =
      Add(cmd::CopyFromArray{1, 3, 0, 0, 0, uint64_t{1} << 40, uint64_t{1} << 40, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(no_array), CudaResult::kInvalidHandle);
  EXPECT_EQ(ResultOf(nothing), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(huge), CudaResult::kInvalidValue);
  EXPECT_THAT(context_.log(), ElementsAre("array@0 64x16 levels=0"));
}

class OutsideMemoryTest : public SessionObjectsTest {
 protected:
  static constexpr uint64_t kMiB = 1u << 20;

  void SetUp() override {
    HostedSession::Options options = OptionsOf();
    options.charger = &purse_;
    options.devices.front().max_threads = 1u << 16;
    options.devices.front().max_stack_bytes = 64u << 10;
    Restart(std::move(options));
  }
  // The result of a look-up in a module with so many bytes of variables.
  CudaResult Load(uint64_t module, uint64_t bytes) {
    const std::string image = absl::StrCat(".version 8.0 .target sm_50 .address_size 64\n",
                                           ".global .b8 big[", bytes, "];");
    Add(cmd::ImageData{module + 1, image.size(), 0}, image);
    Add(cmd::ModuleLoad{module, module + 1});
    const uint64_t found = Add(cmd::KernelFind{module + 2, module}, "kernel");
    EXPECT_TRUE(Send().ok());
    return ResultOf(found);
  }
  CudaResult SetLimit(int limit, uint64_t value) {
    const uint64_t set = Add(cmd::LimitSet{value, limit, 0});
    EXPECT_TRUE(Send().ok());
    return ResultOf(set);
  }

  Purse purse_;
};

TEST_F(OutsideMemoryTest, ModuleVariablesAreChargedUntilTheModuleIsGone) {
  purse_.left = 100 * kMiB;
  EXPECT_EQ(Load(10, 16 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(purse_.left, 100 * kMiB);  // The session's own share.
  EXPECT_EQ(Load(20, 60 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(purse_.left, 40 * kMiB);
  EXPECT_EQ(Load(30, 60 * kMiB), CudaResult::kOutOfMemory);
  EXPECT_EQ(Load(40, 16ull << 30), CudaResult::kOutOfMemory);
  EXPECT_EQ(purse_.left, 40 * kMiB);
  Add(cmd::ModuleUnload{20});
  EXPECT_EQ(Load(50, 80 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(purse_.left, 20 * kMiB);
}

TEST_F(OutsideMemoryTest, StacksAndHeapsAreCharged) {
  constexpr int kStack = 0, kHeap = 2;
  purse_.left = 1024 * kMiB;
  // 65,536 threads, which have 1 KiB each in a new context.
  EXPECT_EQ(SetLimit(kStack, 17u << 10), CudaResult::kSuccess);
  EXPECT_EQ(purse_.left, 16 * kMiB);
  EXPECT_EQ(SetLimit(kStack, 33u << 10), CudaResult::kOutOfMemory);
  EXPECT_EQ(purse_.left, 16 * kMiB);
  EXPECT_EQ(SetLimit(kHeap, 33 * kMiB), CudaResult::kOutOfMemory);
  EXPECT_EQ(SetLimit(kStack, 1u << 10), CudaResult::kSuccess);
  EXPECT_EQ(purse_.left, 1024 * kMiB);
  EXPECT_EQ(SetLimit(kHeap, 80 * kMiB), CudaResult::kSuccess);
  EXPECT_LE(purse_.left, 961 * kMiB);
}

TEST_F(SessionObjectsTest, ArraysAreChargedUntilTheyEnd) {
  Purse purse;
  HostedSession::Options options = OptionsOf();
  options.charger = &purse;
  Restart(std::move(options));
  AddArray(3);
  const uint64_t large = Add(cmd::ArrayCreate{4, 65536, 65536, 0, kFloat, 4, 0, 0});
  const uint64_t failing = Add(cmd::ArrayCreate{5, 13, 1, 0, kFloat, 1, 0, 0});
  const uint64_t wide = Add(cmd::ArrayCreate{6, ~uint64_t{0}, 1, 0, kFloat, 1, 0, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(large), CudaResult::kOutOfMemory);
  EXPECT_EQ(ResultOf(wide), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(failing), CudaResult::kInvalidValue);
  EXPECT_EQ(purse.left, (1u << 20) - (64u << 10));
  Add(cmd::ArrayDestroy{3});
  const uint64_t after = Add(cmd::LimitGet{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(after);
  EXPECT_EQ(purse.left, 1u << 20);
}

TEST_F(SessionObjectsTest, LevelsEndWithTheirArray) {
  const uint64_t made = Add(cmd::ArrayCreate{3, 64, 16, 0, kFloat, 1, 0, 99});
  const uint64_t level = Add(cmd::ArrayPart{4, 3, 1, 0});
  const uint64_t of_level = Add(cmd::ArrayPart{5, 4, 0, 0});
  ASSERT_TRUE(Send().ok());
  std::string body = replies_.Wait(made);
  std::string_view rest = body;
  cmd::ArrayCreateReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.levels, 7u);
  EXPECT_EQ(ResultOf(level), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(of_level), CudaResult::kInvalidHandle);
  Add(cmd::ArrayDestroy{3});
  const uint64_t copy = Add(cmd::CopyFromArray{1, 4, 0, 0, 0, 4, 1, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(copy), CudaResult::kInvalidHandle);
}

TEST_F(SessionObjectsTest, TexturesAreDestroyedOnce) {
  AddArray(3);
  cmd::TextureCreate create = {};
  create.resource = 3;
  const uint64_t made = Add(create);
  create.resource = 9;
  const uint64_t of_nothing = Add(create);
  Add(cmd::TextureDestroy{0x77, 0, 0});
  Add(cmd::TextureDestroy{0x77, 0, 0});
  const uint64_t after = Add(cmd::LimitGet{});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(made), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(of_nothing), CudaResult::kInvalidHandle);
  replies_.Wait(after);
  EXPECT_THAT(context_.log(),
              ElementsAre("array@0 64x16 levels=0", "texture@0 20", "free-texture@0 119"));
}

TEST_F(SessionObjectsTest, LinearTexturesHaveAWidth) {
  const uint64_t width = Add(cmd::LinearTextureWidth{0x20, 4, 0, 0});
  const uint64_t elsewhere = Add(cmd::LinearTextureWidth{0x20, 4, 7, 0});
  ASSERT_TRUE(Send().ok());
  std::string body = replies_.Wait(width);
  std::string_view rest = body;
  cmd::LinearTextureWidthReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.elements, 4000u);
  EXPECT_EQ(ResultOf(elsewhere), CudaResult::kInvalidDevice);
}

TEST_F(SessionObjectsTest, MemoryOfModulesIsFoundByItsAddress) {
  const uint64_t inside = Add(cmd::VariableBlockFind{FakeMemory::kVariables + 5});
  const uint64_t outside =
      Add(cmd::VariableBlockFind{FakeMemory::kVariables + FakeMemory::kVariableBytes});
  ASSERT_TRUE(Send().ok());
  std::string body = replies_.Wait(inside);
  std::string_view rest = body;
  cmd::VariableBlockFindReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.base, FakeMemory::kVariables);
  EXPECT_EQ(reply.bytes, FakeMemory::kVariableBytes);
  EXPECT_EQ(ResultOf(outside), CudaResult::kNotFound);
}

TEST_F(SessionObjectsTest, AQuestionForAlgorithmsIsCheckedAsACallIs) {
  std::vector<uint64_t> values(kLtMatmulValues, 0);
  for (const int slot : {kLtMatmulM, kLtMatmulN, kLtMatmulK, kLtMatmulLda, kLtMatmulLdb,
                         kLtMatmulLdc, kLtMatmulLdd, kLtMatmulBatchCount, kLtMatmulLdaux}) {
    values[slot] = 1;
  }
  values[kLtMatmulComputeType] = 68;  // CUBLAS_COMPUTE_32F
  values[kLtMatmulRequested] = 2;
  const auto ask = [&](uint32_t device, uint32_t function, size_t count,
                       uint32_t question = kLtAskAlgorithms) {
    return Add(cmd::LibraryAsk{device, function, 0, question},
               {reinterpret_cast<const char*>(values.data()), count * sizeof(values[0])});
  };
  const uint64_t good = ask(0, kLtMatmulNumber, kLtMatmulValues);
  const uint64_t elsewhere = ask(1, kLtMatmulNumber, kLtMatmulValues);
  const uint64_t other = ask(0, 1, kLtMatmulValues);
  const uint64_t few = ask(0, kLtMatmulNumber, kLtMatmulValues - 1);
  const uint64_t kinds = ask(0, kLtMatmulNumber, kLtMatmulValues, kLtAskKinds);
  const uint64_t neither = ask(0, kLtMatmulNumber, kLtMatmulValues, 2);
  values[kLtMatmulLda] = 0;
  const uint64_t wrong = ask(0, kLtMatmulNumber, kLtMatmulValues);
  ASSERT_TRUE(Send().ok());
  const std::string body = replies_.Wait(good);
  std::string_view rest = body;
  cmd::LibraryAskReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  ASSERT_EQ(reply.count, 2u);
  LtAlgorithm algorithm;
  ASSERT_TRUE(TakeStruct(&rest, &algorithm) && TakeStruct(&rest, &algorithm));
  EXPECT_EQ(algorithm.workspace, 200u);
  EXPECT_EQ(algorithm.config[1], 2u);
  EXPECT_TRUE(rest.empty());
  const std::string of_kinds = replies_.Wait(kinds);
  rest = of_kinds;
  LtKind kind;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  ASSERT_EQ(reply.count, 2u);
  ASSERT_TRUE(TakeStruct(&rest, &kind) && TakeStruct(&rest, &kind));
  EXPECT_EQ(kind.id, 8u);
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(ResultOf(neither), CudaResult::kNotSupported);
  EXPECT_EQ(ResultOf(elsewhere), CudaResult::kInvalidDevice);
  EXPECT_EQ(ResultOf(other), CudaResult::kNotSupported);
  EXPECT_EQ(ResultOf(few), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(wrong), CudaResult::kInvalidValue);
}

TEST_F(SessionObjectsTest, ATensorMapGetsAnotherAddressOnlyWhole) {
  cmd::TensorMapEncode command = {};
  command.address = 4096;
  command.kind = 3;
  const std::string map(128, 'm');
  const uint64_t whole = Add(command, map);
  const uint64_t part = Add(command, "part");
  ASSERT_TRUE(Send().ok());
  std::string body = replies_.Wait(whole);
  std::string_view rest = body;
  cmd::TensorMapEncodeReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.map[0], 4096u);
  EXPECT_EQ(reply.map[2], 3u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&reply.map[1]), 8), "mmmmmmmm");
  EXPECT_EQ(ResultOf(part), CudaResult::kInvalidValue);
}

}  // namespace
}  // namespace warpline::worker
