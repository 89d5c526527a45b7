#include "client_stub/core/managed/mirror.h"

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
constexpr uint64_t kDeviceBase = 0x1000000;

// A device whose memory is a string.
class FakeLink : public MirrorLink {
 public:
  explicit FakeLink(uint64_t bytes) : memory(bytes, 'd') {}
  CUresult Push(uint64_t device, std::string_view bytes) override {
    memory.replace(device - kDeviceBase, bytes.size(), bytes);
    pushed += bytes.size();
    return result;
  }
  CUresult Pull(void* to, uint64_t device, uint64_t bytes) override {
    if (result == CUDA_SUCCESS) std::memcpy(to, memory.data() + (device - kDeviceBase), bytes);
    pulled += bytes;
    return result;
  }

  std::string memory;
  uint64_t pushed = 0;
  uint64_t pulled = 0;
  CUresult result = CUDA_SUCCESS;
};

class MirrorTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPages = 256;

  void SetUp() override {
    void* at =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    host_ = static_cast<char*>(at);
  }
  void TearDown() override { munmap(host_, kPages * kPage); }

  uint64_t base() const { return reinterpret_cast<uint64_t>(host_); }

  char* host_ = nullptr;
  FakeLink link_{kPages * kPage};
};

TEST_F(MirrorTest, DeviceBytesComeOnTouchAndOnlyThose) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kDevice, &link_);
  EXPECT_FALSE(mirror.host_has_any());
  link_.memory[40 * kPage + 5] = 'x';
  ASSERT_EQ(mirror.Touch(40 * kPage + 5, /*write=*/false), CUDA_SUCCESS);
  EXPECT_EQ(host_[40 * kPage + 5], 'x');
  EXPECT_EQ(host_[40 * kPage + 6], 'd');
  EXPECT_LT(link_.pulled, kPages * kPage / 2);
  EXPECT_TRUE(mirror.host_has_any());
}

TEST_F(MirrorTest, OnlyWrittenPagesGoDown) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kSame, &link_);
  ASSERT_EQ(mirror.Fetch(3 * kPage, kPage, /*write=*/true), CUDA_SUCCESS);
  EXPECT_EQ(link_.pulled, 0u);
  std::memset(host_ + 3 * kPage, 'h', kPage);
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, kPage);
  EXPECT_EQ(link_.memory[3 * kPage], 'h');
  EXPECT_EQ(link_.memory[4 * kPage], 'd');
  EXPECT_FALSE(mirror.host_has_any());
  // Pages that were only read need not be sent again.
  ASSERT_EQ(mirror.Touch(3 * kPage, /*write=*/false), CUDA_SUCCESS);
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, kPage);
}

TEST_F(MirrorTest, ReadingOnTakesMoreAtATime) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kDevice, &link_);
  int touches = 0;
  for (uint64_t page = 0; page < kPages; ++page) {
    const uint64_t before = link_.pulled;
    ASSERT_EQ(mirror.Touch(page * kPage, /*write=*/false), CUDA_SUCCESS);
    touches += link_.pulled != before ? 1 : 0;
    EXPECT_EQ(host_[page * kPage], 'd');
  }
  EXPECT_EQ(link_.pulled, kPages * kPage);
  EXPECT_LT(touches, 8);
}

TEST_F(MirrorTest, APartThatTheDeviceTakesLeavesTheRestToTheHost) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kDevice, &link_);
  ASSERT_EQ(mirror.GiveToHost(), CUDA_SUCCESS);
  std::memset(host_, 'h', kPages * kPage);
  ASSERT_EQ(mirror.GiveToDevice(10 * kPage + 1, kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, 2 * kPage);
  link_.memory[10 * kPage] = 'x';
  host_[12 * kPage] = 'y';
  ASSERT_EQ(mirror.Touch(10 * kPage, /*write=*/true), CUDA_SUCCESS);
  EXPECT_EQ(host_[10 * kPage], 'x');
  EXPECT_EQ(host_[9 * kPage], 'h');
}

TEST_F(MirrorTest, BytesThatTheDeviceLacksStayAsTheyAre) {
  Mirror::Place place = {base(), kDeviceBase, kPages * kPage};
  place.extents = {{kDeviceBase + 16, kDeviceBase + 5 * kPage + 8}};
  host_[15] = 'k';
  Mirror mirror(place, Mirror::kDevice, &link_);
  ASSERT_EQ(mirror.GiveToHost(), CUDA_SUCCESS);
  EXPECT_EQ(host_[15], 'k');
  EXPECT_EQ(host_[16], 'd');
  EXPECT_EQ(host_[5 * kPage + 7], 'd');
  EXPECT_EQ(host_[5 * kPage + 8], 0);
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, 5 * kPage - 8);
}

TEST_F(MirrorTest, WhatIsDiscardedDoesNotMove) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kDevice, &link_);
  ASSERT_EQ(mirror.Fetch(0, 4 * kPage, /*write=*/true), CUDA_SUCCESS);
  link_.pulled = 0;
  std::memset(host_, 'h', 4 * kPage);
  mirror.Discard(kPage, 2 * kPage, /*to_host=*/false);
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, 2 * kPage);
  EXPECT_EQ(link_.memory[0], 'h');
  EXPECT_EQ(link_.memory[kPage], 'd');
  EXPECT_EQ(link_.memory[3 * kPage], 'h');
  // The host goes on without asking, and what it writes then goes down.
  EXPECT_TRUE(mirror.AnyOnDevice(0, kPages * kPage));
  mirror.Discard(0, 2 * kPage, /*to_host=*/true);
  EXPECT_FALSE(mirror.AnyOnDevice(0, 2 * kPage));
  EXPECT_TRUE(mirror.AnyOnDevice(0, 3 * kPage));
  ASSERT_EQ(mirror.Touch(0, /*write=*/true), CUDA_SUCCESS);
  EXPECT_EQ(link_.pulled, 0u);
  host_[0] = 'x';
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  EXPECT_EQ(link_.memory[0], 'x');
}

TEST_F(MirrorTest, WithoutTheDeviceTheHostKeepsWhatItHas) {
  Mirror mirror({base(), kDeviceBase, kPages * kPage}, Mirror::kSame, &link_);
  ASSERT_EQ(mirror.Touch(0, /*write=*/true), CUDA_SUCCESS);
  host_[0] = 'h';
  ASSERT_EQ(mirror.GiveToDevice(0, kPages * kPage), CUDA_SUCCESS);
  link_.result = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(mirror.Touch(0, /*write=*/true), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(host_[0], 'h');
  host_[0] = 'i';
}

TEST_F(MirrorTest, BytesBetweenTwoExtentsStayAsTheyAre) {
  Mirror::Place place = {base(), kDeviceBase, 2 * kPage};
  place.extents = {{kDeviceBase, kDeviceBase + 4}, {kDeviceBase + 512, kDeviceBase + kPage + 8}};
  Mirror mirror(place, Mirror::kHost, &link_);
  std::memset(host_, 'h', 2 * kPage);
  ASSERT_EQ(mirror.GiveToDevice(0, mirror.bytes()), CUDA_SUCCESS);
  EXPECT_EQ(link_.memory.substr(0, 6), "hhhhdd");
  EXPECT_EQ(link_.memory.substr(510, 4), "ddhh");
  EXPECT_EQ(link_.memory.substr(kPage + 6, 4), "hhdd");
  link_.memory.assign(link_.memory.size(), 'n');
  ASSERT_EQ(mirror.GiveToHost(), CUDA_SUCCESS);
  EXPECT_EQ(std::string(host_, 6), "nnnnhh");
  EXPECT_EQ(std::string(host_ + 510, 4), "hhnn");
  EXPECT_EQ(link_.pulled, 4u + (kPage + 8 - 512));
}

}  // namespace
}  // namespace warpline::stub
