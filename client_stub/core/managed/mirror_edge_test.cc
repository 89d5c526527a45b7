#include "client_stub/core/managed/mirror_edge.h"

#include <sys/mman.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
constexpr uint64_t kDeviceBase = 0x1000000;

// A device whose memory is a string.
class FakeLink : public MirrorLink {
 public:
  CUresult Push(uint64_t device, std::string_view bytes) override {
    if (result != CUDA_SUCCESS) return result;
    pushed.emplace_back(device - kDeviceBase, bytes);
    memory.replace(device - kDeviceBase, bytes.size(), bytes);
    return result;
  }
  CUresult Pull(void*, uint64_t, uint64_t) override { return CUDA_ERROR_NOT_SUPPORTED; }

  std::string memory = std::string(3 * kPage, 'd');
  std::vector<std::pair<uint64_t, std::string>> pushed;
  CUresult result = CUDA_SUCCESS;
};

class MirrorEdgeTest : public ::testing::Test {
 protected:
  using Pushed = std::vector<std::pair<uint64_t, std::string>>;

  std::string Host(size_t begin, size_t count) const { return {bytes_ + begin, count}; }
  std::string Device() const { return link_.memory.substr(0, 20); }

  alignas(64) char bytes_[64] = "neighbour0123456789abcdefghijneighbour";
  FakeLink link_;
  // From the tenth byte on, twenty: neither end is a word's.
  MirrorEdge edge_{reinterpret_cast<uint64_t>(bytes_) + 9, kDeviceBase, 20, &link_};
};

TEST_F(MirrorEdgeTest, AllIsSentFirstAndThenWhatTheHostHasChanged) {
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, Pushed({{0, "0123456789abcdefghij"}}));
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed.size(), 1u);
  link_.pushed.clear();
  bytes_[9 + 3] = 'x';
  bytes_[9 + 4] = 'y';
  bytes_[9 + 19] = 'z';
  bytes_[9 + 20] = '!';  // A neighbour's.
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, Pushed({{3, "xy"}, {19, "z"}}));
}

TEST_F(MirrorEdgeTest, BytesOfTheDeviceAreTakenAndTheHostsNewerOnesStay) {
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  link_.memory[0] = 'A';
  link_.memory[10] = 'B';
  link_.memory[19] = 'C';
  bytes_[9 + 1] = 'h';
  edge_.Take(Device());
  EXPECT_EQ(Host(0, 38), "neighbourAh23456789BbcdefghiCneighbour");
  // Only the host's byte is new to the device.
  link_.pushed.clear();
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed, Pushed({{1, "h"}}));
}

TEST_F(MirrorEdgeTest, NewerBytesOfTheDeviceAreNotOverwritten) {
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  link_.memory[5] = 'D';  // Not taken yet.
  bytes_[9 + 6] = 'h';
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.memory.substr(0, 20), "01234Dh789abcdefghij");
  edge_.Take(Device());
  EXPECT_EQ(Host(9, 20), "01234Dh789abcdefghij");
}

TEST_F(MirrorEdgeTest, TheDeviceHasHadThemOnceTheyWereSent) {
  EXPECT_FALSE(edge_.given());
  ASSERT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_TRUE(edge_.given());
}

TEST_F(MirrorEdgeTest, AnErrorIsReturnedAndTheBytesAreSentTheNextTime) {
  link_.result = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(edge_.GiveToDevice(), CUDA_ERROR_LAUNCH_FAILED);
  link_.result = CUDA_SUCCESS;
  EXPECT_EQ(edge_.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.memory.substr(0, 20), "0123456789abcdefghij");
}

TEST_F(MirrorEdgeTest, MemoryThatIsNotThereAnyMoreIsLeftAlone) {
  void* const page =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  MirrorEdge edge(reinterpret_cast<uint64_t>(page) + 100, kDeviceBase, 20, &link_);
  ASSERT_EQ(edge.GiveToDevice(), CUDA_SUCCESS);
  munmap(page, kPage);
  link_.memory[0] = 'D';
  edge.Take(Device());
  EXPECT_EQ(edge.GiveToDevice(), CUDA_SUCCESS);
  EXPECT_EQ(link_.pushed.size(), 1u);
}

TEST_F(MirrorEdgeTest, ARangeHasThePartsOfPagesThatItDoesNotFill) {
  struct Range {
    uint64_t host;
    uint64_t bytes;
    std::vector<std::pair<uint64_t, uint64_t>> edges;  // Device addresses and sizes.
  };
  for (const Range& range : std::vector<Range>{
           {kPage, 2 * kPage, {}},
           {kPage, 10, {{kDeviceBase, 10}}},
           {kPage + 10, 20, {{kDeviceBase, 20}}},
           {kPage + 10, kPage - 10, {{kDeviceBase, kPage - 10}}},
           {kPage + 10, kPage, {{kDeviceBase, kPage - 10}, {kDeviceBase + kPage - 10, 10}}},
           {kPage + 10, 2 * kPage - 10, {{kDeviceBase, kPage - 10}}},
           {kPage, kPage + 10, {{kDeviceBase + kPage, 10}}},
           {kPage + 10, 3 * kPage, {{kDeviceBase, kPage - 10}, {kDeviceBase + 3 * kPage - 10, 10}}},
       }) {
    std::vector<std::pair<uint64_t, uint64_t>> edges;
    for (const MirrorEdge& edge : EdgesOf(range.host, kDeviceBase, range.bytes, &link_)) {
      edges.emplace_back(edge.device(), edge.bytes());
    }
    EXPECT_EQ(edges, range.edges) << range.host << "+" << range.bytes;
  }
}

}  // namespace
}  // namespace warpline::stub
