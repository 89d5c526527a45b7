// What of a tenant's addresses reaches the driver, and by which calls.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/cuda/cuda_context.h"
#include "server/device/cuda/driver_memory.h"
#include "server/device/cuda/testing/fake_driver.h"

namespace warpline::device {
namespace {

constexpr uint64_t kArena = 0x300000000000;
constexpr uint64_t kArenaBytes = uint64_t{1} << 32;
constexpr uint64_t kOther = kArena + kArenaBytes / 2;  // Where the second device's chunk is.
constexpr uint64_t kHostPlaces[] = {0x500000000000, 0x7ea800000000};
constexpr uint64_t kHostBytes = 1 << 16;
constexpr uint64_t kVariables = 0x7f0000000000;
constexpr uint64_t kManaged = 0x7f1000000000;
constexpr uint64_t kOtherVariables = 0x7f2000000000;
constexpr uint64_t kPageLocked = 0x7f3000000000;
constexpr uint64_t kElsewhere = 0x7f4000000000;  // Of a device that the session does not have.
constexpr uint64_t kBlock = 1 << 21;
constexpr uint64_t kSpan = 64;

class CudaAddressesTest : public testing::Test {
 protected:
  void SetUp() override {
    driver_.AddRange(kVariables, {kBlock, CU_MEMORYTYPE_DEVICE, false, 0});
    driver_.AddRange(kManaged, {kBlock, CU_MEMORYTYPE_HOST, true, 0});
    driver_.AddRange(kOtherVariables, {kBlock, CU_MEMORYTYPE_DEVICE, false, 1});
    driver_.AddRange(kPageLocked, {kBlock, CU_MEMORYTYPE_HOST, false, 0});
    driver_.AddRange(kElsewhere, {kBlock, CU_MEMORYTYPE_DEVICE, false, 7});
    const int ordinals[] = {0, 1};
    auto group = CudaGroup::Open(driver_.api(), ordinals);
    ASSERT_TRUE(group.ok()) << group.status();
    group_ = *group;
    context_ = std::make_unique<CudaContext>(
        std::make_unique<CudaMember>(CudaMember{driver_.api(), group_, 0}));
    ASSERT_EQ(context_->ReserveArena(kArena, kArenaBytes), CudaResult::kSuccess);
    group_->OnMapped(kArena, kBlock, 0);
    group_->OnMapped(kOther, kBlock, 1);
    UniqueFd fd(memfd_create("host", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(fd.get(), kHostBytes), 0);
    for (const uint64_t place : kHostPlaces) {
      if (context_->MapHost(place, kHostBytes, fd.get()) == CudaResult::kSuccess) {
        host_ = place;
        break;
      }
    }
    ASSERT_NE(host_, 0u);
  }

  void TearDown() override {
    EXPECT_EQ(context_->UnmapHost(host_, kHostBytes), CudaResult::kSuccess);
  }

  static std::string Hex(uint64_t address) { return absl::StrCat(absl::Hex(address)); }

  std::string CopyOf(uint64_t to, uint64_t from) {
    EXPECT_EQ(context_->CopyOnDevice(to, from, kSpan, kLegacyStream), CudaResult::kSuccess);
    return driver_.Take();
  }

  std::string BoxOf(uint64_t to, uint64_t from) {
    EXPECT_EQ(
        context_->CopyBoxOnDevice({to, kSpan, 0}, {from, kSpan, 0}, {kSpan, 2, 1}, kLegacyStream),
        CudaResult::kSuccess);
    return driver_.Take();
  }

  CudaResult Node(const GraphNode& node) {
    GraphId graph{};
    return context_->CreateGraph({&node, 1}, &graph);
  }

  GraphNode CopyNode(const BoxPlace& to, const BoxPlace& from, const BoxExtent& extent) {
    GraphNode node;
    node.kind = GraphNode::Kind::kCopy;
    node.dst = to;
    node.src = from;
    node.extent = extent;
    return node;
  }

  // Two rows of bytes.
  static Texture Pitched(uint64_t at) {
    Texture texture;
    texture.kind = Texture::kPitch2D;
    texture.address = at;
    texture.format = CU_AD_FORMAT_UNSIGNED_INT8;
    texture.channels = 1;
    texture.width = kSpan;
    texture.height = 2;
    texture.pitch = kSpan;
    return texture;
  }

  FakeDriver driver_;
  std::shared_ptr<CudaGroup> group_;
  std::unique_ptr<CudaContext> context_;
  uint64_t host_ = 0;
};

TEST_F(CudaAddressesTest, TheKindsOfBothEndsChooseTheCall) {
  const std::string arena = Hex(kArena), host = Hex(host_), variables = Hex(kVariables);
  EXPECT_EQ(CopyOf(kArena, kArena + kSpan),
            absl::StrCat("DtoD ", arena, " <- ", Hex(kArena + kSpan), "\n"));
  EXPECT_EQ(CopyOf(kArena, kVariables), absl::StrCat("DtoD ", arena, " <- ", variables, "\n"));
  EXPECT_EQ(CopyOf(kManaged, kArena), absl::StrCat("DtoD ", Hex(kManaged), " <- ", arena, "\n"));
  EXPECT_EQ(CopyOf(kArena, host_), absl::StrCat("HtoD ", arena, " <- ", host, "\n"));
  EXPECT_EQ(CopyOf(host_, kVariables), absl::StrCat("DtoH ", host, " <- ", variables, "\n"));
  EXPECT_EQ(CopyOf(host_, host_ + kSpan),
            absl::StrCat("HtoD ", host, " <- ", Hex(host_ + kSpan), "\n"));
}

TEST_F(CudaAddressesTest, MemoryOfOtherDevicesIsNamedWithItsContext) {
  const std::string arena = Hex(kArena);
  EXPECT_EQ(CopyOf(kOther, kArena),
            absl::StrCat("Peer ", Hex(kOther), " of 101 <- ", arena, " of 100\n"));
  EXPECT_EQ(CopyOf(kArena, kOtherVariables),
            absl::StrCat("Peer ", arena, " of 100 <- ", Hex(kOtherVariables), " of 101\n"));
  EXPECT_EQ(BoxOf(kOther, host_), absl::StrCat("PeerBox device ", Hex(kOther), " of 101 <- host ",
                                               Hex(host_), " of 100\n"));
  EXPECT_EQ(Node(CopyNode({kOtherVariables, 1, 1}, {kArena, 1, 1}, {1, 1, 1})),
            CudaResult::kNotSupported)
      << "a graph is for one device";
}

TEST_F(CudaAddressesTest, NoEndOfABoxIsOfAnyType) {
  const std::string arena = Hex(kArena), host = Hex(host_);
  EXPECT_EQ(BoxOf(kArena, kArena + kBlock / 2),
            absl::StrCat("Box device ", arena, " <- device ", Hex(kArena + kBlock / 2), "\n"));
  EXPECT_EQ(BoxOf(host_, kArena), absl::StrCat("Box host ", host, " <- device ", arena, "\n"));
  EXPECT_EQ(BoxOf(kArena, host_), absl::StrCat("Box device ", arena, " <- host ", host, "\n"));
  EXPECT_EQ(Node(CopyNode({host_, kSpan, 0}, {kVariables, kSpan, 0}, {kSpan, 2, 1})),
            CudaResult::kSuccess);
  EXPECT_EQ(driver_.Take(),
            absl::StrCat("NodeBox host ", host, " <- device ", Hex(kVariables), "\n"));
}

TEST_F(CudaAddressesTest, NothingButTheSessionsMemoryReachesTheDriver) {
  char buffer[2 * kSpan];
  const auto local = reinterpret_cast<uint64_t>(&buffer);
  const BoxPlace good = {kArena, kSpan, 0};
  const BoxExtent extent = {kSpan, 2, 1};
  using Use = std::function<CudaResult(uint64_t)>;
  const std::vector<Use> uses = {
      [&](uint64_t at) { return context_->CopyToDevice(at, buffer, kSpan, kLegacyStream); },
      [&](uint64_t at) { return context_->CopyFromDevice(buffer, at, kSpan, kLegacyStream); },
      [&](uint64_t at) { return context_->CopyOnDevice(at, kArena, kSpan, kLegacyStream); },
      [&](uint64_t at) { return context_->CopyOnDevice(kArena, at, kSpan, kLegacyStream); },
      [&](uint64_t at) { return context_->Memset(at, 0, 1, kSpan, kLegacyStream); },
      [&](uint64_t at) { return context_->Memset(at, 0, 2, kSpan / 2, kLegacyStream); },
      [&](uint64_t at) { return context_->Memset(at, 0, 4, kSpan / 4, kLegacyStream); },
      [&](uint64_t at) { return context_->MemsetRows(at, kSpan, 0, 1, kSpan, 2, kLegacyStream); },
      [&](uint64_t at) {
        return context_->MemsetRows(kArena, at - kArena, 0, 4, 1, 2, kLegacyStream);
      },
      [&](uint64_t at) {
        return context_->CopyBoxToDevice({at, kSpan, 0}, buffer, extent, kLegacyStream);
      },
      [&](uint64_t at) {
        return context_->CopyBoxFromDevice(buffer, {at, kSpan, 0}, extent, kLegacyStream);
      },
      [&](uint64_t at) {
        return context_->CopyBoxOnDevice({at, kSpan, 0}, good, extent, kLegacyStream);
      },
      [&](uint64_t at) {
        return context_->CopyBoxOnDevice(good, {at, kSpan, 0}, extent, kLegacyStream);
      },
      [&](uint64_t at) {
        return context_->CopyBoxOnDevice({kArena, at - kArena, 0}, good, extent, kLegacyStream);
      },
      [&](uint64_t at) {
        const MemOp op = {MemOp::kWrite32, 0, at, 0};
        return context_->MemOps({&op, 1}, kLegacyStream);
      },
      [&](uint64_t at) {
        ArrayEnd array, device;
        array.kind = ArrayEnd::Kind::kArray;
        array.array = ArrayId{64};
        device.kind = ArrayEnd::Kind::kDevice;
        device.place = {at, kSpan, 0};
        const CudaResult result = context_->CopyArray(array, device, extent, kLegacyStream);
        EXPECT_EQ(context_->CopyArray(device, array, extent, kLegacyStream), result);
        return result;
      },
      [&](uint64_t at) {
        return Node(CopyNode({at, kSpan, 0}, good, extent));
      },
      [&](uint64_t at) {
        return Node(CopyNode(good, {at, kSpan, 0}, extent));
      },
      [&](uint64_t at) {
        return Node(CopyNode({kArena, at - kArena, 0}, good, extent));
      },
      [&](uint64_t at) {
        GraphNode node;
        node.kind = GraphNode::Kind::kMemset;
        node.dst = {at, 0, 0};
        node.width = 4;
        node.columns = kSpan / 4;
        node.rows = 1;
        return Node(node);
      },
      [&](uint64_t at) {
        GraphNode node;
        node.kind = GraphNode::Kind::kMemOps;
        node.operations = {{MemOp::kWrite32, 0, at, 0}};
        return Node(node);
      },
      [&](uint64_t at) {
        Texture texture;
        texture.kind = Texture::kLinear;
        texture.address = at;
        texture.width = kSpan;
        uint64_t object = 0;
        return context_->CreateTexture(texture, &object);
      },
      [&](uint64_t at) {
        uint64_t object = 0;
        return context_->CreateTexture(Pitched(at), &object);
      },
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i](kArena + kSpan * 2), CudaResult::kSuccess) << i;
    EXPECT_NE(driver_.Take(), "") << i;
    for (const uint64_t at :
         {local, kPageLocked, kElsewhere, kVariables - kSpan / 2, kVariables + kBlock - 2,
          kArena - kSpan, kArena + kArenaBytes - 2, kArena + kArenaBytes, host_ + kHostBytes - 2,
          uint64_t{0}, ~uint64_t{0} - 3}) {
      EXPECT_EQ(uses[i](at), CudaResult::kInvalidValue) << i << ", " << Hex(at);
      EXPECT_EQ(driver_.Take(), "") << i << ", " << Hex(at);
    }
  }
}

// The last row would end beyond what the gate was asked for.
TEST_F(CudaAddressesTest, RowsOfATextureAreNotLongerThanItsPitch) {
  const uint64_t last = kArena + kArenaBytes - 2 * kSpan;
  uint64_t object = 0;
  const auto make = [&](const Texture& texture) {
    return context_->CreateTexture(texture, &object);
  };
  EXPECT_EQ(make(Pitched(last)), CudaResult::kSuccess);
  EXPECT_NE(driver_.Take(), "");
  Texture wide = Pitched(last);
  wide.width = kSpan + 1;
  EXPECT_EQ(make(wide), CudaResult::kInvalidValue);
  wide.width = kSpan / 8;
  wide.format = CU_AD_FORMAT_FLOAT;
  wide.channels = 4;
  EXPECT_EQ(make(wide), CudaResult::kInvalidValue);
  wide.width = uint64_t{1} << 60;
  EXPECT_EQ(make(wide), CudaResult::kInvalidValue);
  Texture compressed = Pitched(last);
  compressed.format = CU_AD_FORMAT_BC1_UNORM;
  EXPECT_EQ(make(compressed), CudaResult::kInvalidValue);
  // A view may be larger than the memory.
  Texture viewed = Pitched(last);
  viewed.has_view = true;
  EXPECT_EQ(make(viewed), CudaResult::kInvalidValue);
  viewed.kind = Texture::kLinear;
  EXPECT_EQ(make(viewed), CudaResult::kInvalidValue);
  EXPECT_EQ(driver_.Take(), "");
}

TEST_F(CudaAddressesTest, AWindowOnOtherMemoryIsNotPassedOn) {
  LaunchAttribute window;
  window.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
  CUaccessPolicyWindow native = {};
  native.base_ptr = reinterpret_cast<void*>(kArena);
  native.num_bytes = kSpan;
  std::memcpy(window.value.data(), &native, sizeof(native));
  EXPECT_EQ(context_->SetStreamAttribute(kLegacyStream, window), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Take(), "StreamAttribute\n");
  native.base_ptr = &native;
  std::memcpy(window.value.data(), &native, sizeof(native));
  EXPECT_EQ(context_->SetStreamAttribute(kLegacyStream, window), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Take(), "");
}

// A graph keeps what its nodes name, and by its launch something else may lie there.
TEST_F(CudaAddressesTest, AGraphIsNotLaunchedOnceItsMemoryIsGone) {
  constexpr uint64_t kMore = kHostBytes;
  context_->LimitVariables();
  context_->AddVariable(kVariables, kSpan, kVariables);
  UniqueFd fd(memfd_create("more", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), kMore), 0);
  const uint64_t more = host_ + kHostBytes;
  GraphNode word;
  word.kind = GraphNode::Kind::kMemOps;
  word.operations = {{MemOp::kWrite32, 0, more, 0}, {MemOp::kBarrier, 0, 0, 0}};
  const BoxPlace arena = {kArena, kSpan, 0};
  const BoxExtent extent = {kSpan, 1, 1};
  for (const GraphNode& node : {CopyNode(arena, {more, kSpan, 0}, extent),
                                CopyNode({more, kSpan, 0}, arena, extent), word}) {
    ASSERT_EQ(context_->MapHost(more, kMore, fd.get()), CudaResult::kSuccess);
    GraphId graph{};
    ASSERT_EQ(context_->CreateGraph({&node, 1}, &graph), CudaResult::kSuccess);
    EXPECT_EQ(context_->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess);
    ASSERT_EQ(context_->UnmapHost(more, kMore), CudaResult::kSuccess);
    driver_.Take();
    EXPECT_EQ(context_->LaunchGraph(graph, kLegacyStream), CudaResult::kInvalidValue);
    EXPECT_EQ(driver_.Take(), "");
    EXPECT_EQ(context_->DestroyGraph(graph), CudaResult::kSuccess);
  }
  const GraphNode node = CopyNode(arena, {kVariables, kSpan, 0}, extent);
  GraphId graph{};
  ASSERT_EQ(context_->CreateGraph({&node, 1}, &graph), CudaResult::kSuccess);
  context_->AddVariable(kVariables + kSpan, kSpan, kVariables + kSpan);
  context_->RemoveVariable(kVariables + kSpan);
  EXPECT_EQ(context_->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess) << "another's";
  context_->RemoveVariable(kVariables);
  EXPECT_EQ(context_->LaunchGraph(graph, kLegacyStream), CudaResult::kInvalidValue);
}

TEST_F(CudaAddressesTest, LimitedVariablesReachTheDriverByNameAlone) {
  context_->LimitVariables();
  context_->AddVariable(kVariables + kSpan, kSpan, kVariables + kSpan);
  EXPECT_EQ(CopyOf(kArena, kVariables + kSpan),
            absl::StrCat("DtoD ", Hex(kArena), " <- ", Hex(kVariables + kSpan), "\n"));
  const BoxExtent extent = {kSpan / 2, 2, 1};
  for (const uint64_t at : {kVariables, kVariables + kSpan + 1, kVariables + 2 * kSpan, kManaged}) {
    EXPECT_EQ(context_->CopyOnDevice(at, kArena, kSpan, kLegacyStream), CudaResult::kInvalidValue);
    EXPECT_EQ(Node(CopyNode({at, kSpan, 0}, {kArena, kSpan, 0}, extent)),
              CudaResult::kInvalidValue);
  }
  LaunchAttribute window;
  window.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
  CUaccessPolicyWindow native = {};
  native.base_ptr = reinterpret_cast<void*>(kVariables);
  native.num_bytes = kSpan;
  std::memcpy(window.value.data(), &native, sizeof(native));
  EXPECT_EQ(context_->SetStreamAttribute(kLegacyStream, window), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Take(), "") << "left out";
}

TEST(DriverMemoryTest, OnlyMemoryOfTheSessionsDevicesIsOfVariables) {
  FakeDriver driver;
  driver.AddRange(kVariables, {kBlock, CU_MEMORYTYPE_DEVICE, false, 1});
  driver.AddRange(kManaged, {kBlock, CU_MEMORYTYPE_HOST, true, 0});
  driver.AddRange(kPageLocked, {kBlock, CU_MEMORYTYPE_HOST, false, 0});
  driver.AddRange(kElsewhere, {kBlock, CU_MEMORYTYPE_DEVICE, false, 2});
  DriverMemory memory(driver.api());
  memory.AddDevice(0);
  memory.AddDevice(1);
  VariableBlock block;
  ASSERT_TRUE(memory.FindVariables(kVariables + 5, &block));
  EXPECT_EQ(block.address, kVariables);
  EXPECT_EQ(block.bytes, kBlock);
  EXPECT_EQ(block.owner, 1u);
  ASSERT_TRUE(memory.FindVariables(kManaged, &block));
  EXPECT_EQ(block.owner, 0u);
  EXPECT_FALSE(memory.FindVariables(kPageLocked, &block));
  EXPECT_FALSE(memory.FindVariables(kElsewhere, &block));
  EXPECT_FALSE(memory.FindVariables(0x1000, &block));
  driver.FailToAnswer();
  EXPECT_FALSE(memory.FindVariables(kVariables, &block));
}

}  // namespace
}  // namespace warpline::device
