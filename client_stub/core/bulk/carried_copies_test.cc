// What becomes of large copies where no memory is shared with the server, and bulk connections
// carry the bytes.
#include <cstring>
#include <string>
#include <string_view>

#include "client_stub/core/bulk/bulk_copies.h"
#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

constexpr size_t kLeast = 4u << 20;
constexpr size_t kBytes = (5u << 20) + 5;

class CarriedCopiesTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuMemAlloc_v2(&device_, 16u << 20), CUDA_SUCCESS);
    memory_.assign(16u << 20, '\0');
    Begin();
  }
  // Nothing has been sent, all connections are there, and the device stands ready.
  void Begin() {
    session().Clear();
    session().bulk_memory().Connect(BulkMemory::kSlots);
    session().SetOnCopy([this](const cmd::CopyOnDevice& copy) {
      for (FakeBulk* const host : {&session().bulk_memory(), &session().relay_memory()}) {
        if (host->Has(copy.src)) {
          std::memcpy(&memory_[copy.dst - device_], host->At(copy.src), copy.bytes);
        } else if (host->Has(copy.dst)) {
          std::memcpy(host->At(copy.dst), &memory_[copy.src - device_], copy.bytes);
        }
      }
    });
  }

  static std::string Source(size_t bytes) {
    std::string source(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<char>(i * 31 + (i >> 12));
    return source;
  }

  CUdeviceptr device_ = 0;
  std::string memory_;  // The device's.
};

TEST_F(CarriedCopiesTest, BytesGoToTheDeviceAndBack) {
  for (const size_t bytes : {kLeast, kBytes, size_t{9} << 20}) {
    const std::string source = Source(bytes);
    ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), bytes), CUDA_SUCCESS);
    EXPECT_TRUE(std::string_view(memory_).substr(0, bytes) == source) << bytes;
    std::string target(bytes + 1, '\x33');
    ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), device_, bytes), CUDA_SUCCESS);
    EXPECT_TRUE(std::string_view(target).substr(0, bytes) == source) << bytes;
    EXPECT_EQ(target[bytes], '\x33');
  }
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 0);
}

TEST_F(CarriedCopiesTest, SmallerOnesRideInTheirCommands) {
  std::string bytes = Source(kLeast - 1);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, bytes.data(), bytes.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(bytes.data(), device_, bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  EXPECT_EQ(session().bulk_memory().most_wanted(), 0u);
}

TEST_F(CarriedCopiesTest, WithoutAConnectionTheyRideToo) {
  session().bulk_memory().Connect(0);
  const std::string source = Source(kBytes);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  EXPECT_GT(session().bulk_memory().most_wanted(), 0u);
}

TEST_F(CarriedCopiesTest, WhereThereIsARelayTheyGoOverIt) {
  session().relay_memory().Connect(BulkMemory::kSlots);
  const std::string source = Source(kBytes);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_TRUE(std::string_view(memory_).substr(0, kBytes) == source);
  std::string target(kBytes, '\x33');
  ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), device_, kBytes), CUDA_SUCCESS);
  EXPECT_TRUE(target == source);
  // From smaller ones on, to the host.
  ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), device_, 256u << 10), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 0);
  EXPECT_EQ(session().bulk_memory().most_wanted(), 0u);
}

TEST_F(CarriedCopiesTest, WhereARelayIsLostTheyGoToTheServer) {
  const std::string source = Source(kBytes);
  session().relay_memory().Connect(BulkMemory::kSlots);
  session().relay_memory().LoseAfter(0);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_EQ(session().bulk_memory().most_wanted(), 0u);  // This one has begun.
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_GT(session().bulk_memory().most_wanted(), 0u);
  EXPECT_TRUE(std::string_view(memory_).substr(0, kBytes) == source);
}

TEST_F(CarriedCopiesTest, WhileARelayIsBeingConnectedTheyRide) {
  session().relay_memory().SetConnecting(true);
  const std::string source = Source(kBytes);
  ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kBytes), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  EXPECT_EQ(session().bulk_memory().most_wanted(), 0u);
}

// Wherever the connections are lost, what was not carried rides, and every byte is sent once.
TEST_F(CarriedCopiesTest, WhatALostConnectionDidNotCarryRides) {
  constexpr size_t kAll = 5u << 20;
  const std::string source = Source(kAll);
  for (const int moves : {0, 1, 3, 9}) {
    Begin();
    session().bulk_memory().LoseAfter(moves);
    memory_.assign(memory_.size(), '\0');
    ASSERT_EQ(cuMemcpyHtoD_v2(device_, source.data(), kAll), CUDA_SUCCESS);
    for (const auto& sent : session().sent()) {
      if (sent.id != CommandId::kCopyToDevice) continue;
      cmd::CopyToDevice command;
      std::memcpy(&command, sent.body.data(), sizeof(command));
      memory_.replace(command.dst - device_, sent.tail.size(), sent.tail);
    }
    EXPECT_TRUE(std::string_view(memory_).substr(0, kAll) == source) << moves;
    EXPECT_GT(session().Count(CommandId::kCopyToDevice), 0);
    Begin();
    session().bulk_memory().LoseAfter(moves);
    std::string target(kAll, '\x33');
    ASSERT_EQ(cuMemcpyDtoH_v2(target.data(), device_, kAll), CUDA_SUCCESS);
    EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 1) << moves;
  }
}

}  // namespace
}  // namespace warpline::stub
