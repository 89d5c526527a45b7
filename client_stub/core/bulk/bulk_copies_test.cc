// What becomes of copies between ordinary memory and the device where memory is shared with the
// server: which commands leave, and where the bytes are.
#include "client_stub/core/bulk/bulk_copies.h"

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

constexpr size_t kBytes = (3u << 20) + 5;
constexpr uint64_t kLeastIn = BulkCopies::kLeastIn;
constexpr uint64_t kLeastOut = BulkCopies::kLeastOut;

class BulkCopiesTest : public CoreTest {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the range in which memory is shared is ThreadSanitizer's";
#endif
    CoreTest::SetUp();
    session().ShareMemory();
    ASSERT_EQ(cuMemAlloc_v2(&device_, 16u << 20), CUDA_SUCCESS);
    session().Clear();
  }

  void TearDown() override {
    if (!IsSkipped()) CoreTest::TearDown();
  }

  static std::string Source(size_t bytes) {
    std::string source(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<char>(i * 31 + (i >> 12));
    return source;
  }

  // The copies between shared memory and the device that were sent, in their order.
  static std::vector<cmd::CopyOnDevice> Staged() {
    std::vector<cmd::CopyOnDevice> staged;
    for (const auto& sent : session().sent()) {
      if (sent.id != CommandId::kCopyOnDevice) continue;
      cmd::CopyOnDevice command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      staged.push_back(command);
    }
    return staged;
  }

  CUdeviceptr device_ = 0;
};

TEST_F(BulkCopiesTest, OnlyCommandsLeaveForACopyToTheDevice) {
  session().SetComplete(false);  // So that no piece is used again.
  const std::string source = Source(kBytes);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
  uint64_t at = device_;
  for (const cmd::CopyOnDevice& copy : Staged()) {
    EXPECT_EQ(copy.dst, at);
    ASSERT_TRUE(InHostArena(copy.src));
    const std::string_view bytes(reinterpret_cast<const char*>(copy.src), copy.bytes);
    EXPECT_TRUE(bytes == std::string_view(source).substr(at - device_, copy.bytes)) << at - device_;
    at += copy.bytes;
  }
  EXPECT_EQ(at, device_ + kBytes);
}

TEST_F(BulkCopiesTest, ACopyFromTheDeviceIsThereWhenItReturns) {
  // Stands in for the device.
  session().SetOnCopy([this](const cmd::CopyOnDevice& copy) {
    for (uint64_t i = 0; i < copy.bytes; ++i) {
      reinterpret_cast<char*>(copy.dst)[i] = static_cast<char>((copy.src - device_ + i) * 7);
    }
  });
  for (const size_t bytes : {kLeastOut, uint64_t{kBytes}, uint64_t{9} << 20}) {
    std::string target(bytes + 1, '\x33');
    ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), device_, bytes), CUDA_SUCCESS);
    EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 0);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i) wrong += target[i] != static_cast<char>(i * 7) ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << bytes;
    EXPECT_EQ(target[bytes], '\x33');
  }
}

TEST_F(BulkCopiesTest, SmallCopiesRideInTheirCommands) {
  std::string source = Source(kLeastIn - 1);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), source.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(source.data(), device_, kLeastOut - 1), CUDA_SUCCESS);
  EXPECT_TRUE(Staged().empty());
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 1);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 1);
}

TEST_F(BulkCopiesTest, CopiesThatAreMadeOftenDoNotRide) {
  constexpr uint64_t kSmall = BulkCopies::kLeastOftenIn - 1, kBytes = 64u << 10;
  const std::string source = Source(kBytes);
  // However many there are, these are quick.
  for (uint64_t done = 0; done < 2 * BulkCopies::kOftenBytes; done += kSmall) {
    ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kSmall), CUDA_SUCCESS);
  }
  EXPECT_TRUE(Staged().empty());
  session().Clear();
  // Other tests may have copied a little.
  uint64_t done = 0;
  while (Staged().empty()) {
    ASSERT_LE(done, BulkCopies::kOftenBytes);
    ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
    done += kBytes;
  }
  EXPECT_GT(done, BulkCopies::kOftenBytes / 2);
  session().Clear();
  session().SetComplete(false);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(cuMemcpyHtoD_v2(device_ + i * kBytes, source.data(), kBytes), CUDA_SUCCESS);
    ASSERT_EQ(Staged().size(), i + 1);
    const cmd::CopyOnDevice copy = Staged().back();
    EXPECT_EQ(copy.dst, device_ + i * kBytes);
    ASSERT_TRUE(InHostArena(copy.src));
    EXPECT_TRUE(std::string_view(reinterpret_cast<const char*>(copy.src), copy.bytes) == source);
  }
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
}

// A stream that does not move has all pieces, and the copy is sent all the same.
TEST_F(BulkCopiesTest, WhenNoPieceIsFreeTheRestRidesInItsCommands) {
  session().SetComplete(false);
  const std::string source = Source(15u << 20);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), source.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), source.size()), CUDA_SUCCESS);
  uint64_t staged = 0;
  for (const cmd::CopyOnDevice& copy : Staged()) staged += copy.bytes;
  uint64_t carried = 0;
  for (const auto& sent : session().sent()) {
    if (sent.id == CommandId::kCopyToDevice) carried += sent.tail.size();
  }
  EXPECT_LE(staged, 32u << 20);
  EXPECT_GT(carried, 0u);
  EXPECT_GE(staged + carried, 2 * source.size());
}

// A small copy from page-locked memory that the device reaches: the call takes its bytes where
// nothing that is still to run can write there.
TEST_F(BulkCopiesTest, SmallCopiesOfSharedMemoryAreNotWaitedFor) {
  constexpr size_t kSmall = 4096;
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, kSmall), CUDA_SUCCESS);
  ASSERT_TRUE(InHostArena(reinterpret_cast<uint64_t>(host)));
  std::memset(host, 'h', kSmall);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  session().Clear();
  session().SetComplete(false);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device_, host, kSmall, stream), CUDA_SUCCESS);
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>(&tail).dst, device_);
  EXPECT_EQ(tail, std::string(kSmall, 'h'));
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 0);
  EXPECT_EQ(Staged().size(), 0u);
  // A kernel that still runs may write to the memory.
  ASSERT_EQ(cuMemsetD8Async(device_ + kSmall, 1, kSmall, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device_, host, kSmall, stream), CUDA_SUCCESS);
  EXPECT_EQ(Staged().size(), 1u);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 1);
}

TEST_F(BulkCopiesTest, CopiesToSharedMemoryAreWaitedFor) {
  constexpr size_t kSmall = 4096;
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, 2 * kSmall), CUDA_SUCCESS);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  session().Clear();
  session().SetComplete(false);
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  ASSERT_EQ(cuMemcpyAsync(address, address + kSmall, kSmall, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_GE(session().Count(CommandId::kStreamSync), 1);
}

}  // namespace
}  // namespace warpline::stub
