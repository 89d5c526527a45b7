// What becomes of copies in a session whose staging memory is a host window, one piece of the
// server's choice.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "client_stub/core/testing/core_fixture.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kWindowBytes = 16u << 20;

class WindowCopiesTest : public CoreTest {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the range in which memory is shared is ThreadSanitizer's";
#endif
    CoreTest::SetUp();
    session().ShareWindow(kWindowBytes);
    ASSERT_EQ(cuMemAlloc_v2(&device_, 64u << 20), CUDA_SUCCESS);
    session().Clear();
  }
  void TearDown() override {
    if (!IsSkipped()) CoreTest::TearDown();
  }

  // Tells how many bytes went as staged copies, and sees that each lies in the window.
  static uint64_t Staged() {
    uint64_t bytes = 0;
    for (const auto& sent : session().sent()) {
      if (sent.id != CommandId::kCopyOnDevice) continue;
      cmd::CopyOnDevice command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      EXPECT_TRUE(InHostArena(command.src));
      lowest_ = lowest_ == 0 ? command.src : std::min(lowest_, command.src);
      EXPECT_LE(command.src + command.bytes, lowest_ + kWindowBytes);
      bytes += command.bytes;
    }
    return bytes;
  }

  CUdeviceptr device_ = 0;
  static inline uint64_t lowest_ = 0;
};

// Memory that the program asks for is none of the window, and its refusal does not end staging.
TEST_F(WindowCopiesTest, ACopyGoesThroughTheWindow) {
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 4096, 0), CUDA_SUCCESS);
  EXPECT_FALSE(InHostArena(reinterpret_cast<uint64_t>(pinned)));
  const std::string source(48u << 20, 'w');
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), source.size()), CUDA_SUCCESS);
  EXPECT_EQ(Staged(), source.size());
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(WindowCopiesTest, WhatFindsNoPieceInTheWindowRides) {
  session().SetComplete(false);
  const std::string source(24u << 20, 'w');
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), source.size()), CUDA_SUCCESS);
  const uint64_t staged = Staged();
  EXPECT_GT(staged, 0u);
  EXPECT_LE(staged, kWindowBytes);
  uint64_t carried = 0;
  for (const auto& sent : session().sent()) {
    if (sent.id == CommandId::kCopyToDevice) carried += sent.tail.size();
  }
  EXPECT_GE(staged + carried, source.size());
}

TEST_F(WindowCopiesTest, AnAsynchronousCopyToTheHostGoesThroughTheWindow) {
  constexpr size_t kBytes = (2u << 20) + 100'000;
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, kBytes, 0), CUDA_SUCCESS);
  std::string expected;
  // In place of the device, which writes a letter for each copy.
  session().SetOnCopy([&](const cmd::CopyOnDevice& command) {
    EXPECT_TRUE(InHostArena(command.dst));
    const auto letter = static_cast<char>('a' + session().Count(CommandId::kCopyOnDevice));
    std::memset(reinterpret_cast<void*>(command.dst), letter, command.bytes);
    expected.append(command.bytes, letter);
  });
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, device_, kBytes, nullptr), CUDA_SUCCESS);
  session().SetOnCopy(nullptr);
  EXPECT_GT(session().Count(CommandId::kCopyOnDevice), 1);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), session().Count(CommandId::kCopyOnDevice));
  EXPECT_EQ(session().Latest<cmd::CopyFromDevice>().bytes, 0u);
  EXPECT_TRUE(std::string_view(static_cast<char*>(pinned), kBytes) == expected);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(WindowCopiesTest, SmallOnesAndThoseThatFindNoPieceComeInAnswers) {
  constexpr size_t kBytes = kWindowBytes + (4u << 20);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, kBytes, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, device_, 4096, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 1);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  session().SetComplete(false);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, device_, kBytes, nullptr), CUDA_SUCCESS);
  EXPECT_GT(session().Count(CommandId::kCopyOnDevice), 0);
  EXPECT_GE(session().Latest<cmd::CopyFromDevice>().bytes, 4u << 20);
  session().SetComplete(true);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
