// Tests every backend with addresses that a tenant may name and that are none of its business: what
// a worker's process has besides the session's memory. Each way in which a command names memory is
// tried with each of them.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/unique_fd.h"
#include "server/device/testing/device_fixture.h"

namespace warpline::device {
namespace {

constexpr uint64_t kSpan = 64;
constexpr uint64_t kHostBytes = 2 << 20;
// ThreadSanitizer leaves programs little of the address space; the last one is there.
constexpr uint64_t kHostPlaces[] = {0x500000000000, 0x7ea800000000};
constexpr uint32_t kFloatFormat = 0x20;  // CU_AD_FORMAT_FLOAT
constexpr char kUntouched = 0x5a;

using Bytes = std::array<char, 4096>;
Bytes g_static;

int Function() { return 1; }

class AddressTest : public DeviceFixture {
 protected:
  // How many dimensions of a box a command can name.
  enum class Shape { kRun, kRows, kSlices };
  // Memory besides the arena that a command takes.
  enum Takes { kArenaOnly = 0, kHost = 1, kVariables = 2, kAll = kHost | kVariables };

  struct Way {
    std::string_view name;
    Shape shape;
    Takes takes;
    std::function<CudaResult(const BoxPlace&, const BoxExtent&)> use;
  };
  struct Foreign {
    std::string_view name;
    uint64_t address;
  };

  void SetUp() override {
    DeviceFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(context_->AllocStaging(kStagingBytes, &theirs_), CudaResult::kSuccess);
    UniqueFd fd(memfd_create("host", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(fd.get(), kHostBytes), 0);
    for (const uint64_t place : kHostPlaces) {
      if (context_->MapHost(place, kHostBytes, fd.get()) == CudaResult::kSuccess) {
        host_ = place;
        break;
      }
    }
    ASSERT_NE(host_, 0u);
    uint64_t bytes = 0;
    Find("scale");
    ASSERT_EQ(context_->FindGlobal(module_, "table", &table_, &bytes), CudaResult::kSuccess);
    ASSERT_EQ(context_->FindGlobal(module_, "factor", &factor_, &bytes), CudaResult::kSuccess);
    if (context_->capabilities().Has(Capability::kArrays)) {
      ArrayShape shape;
      shape.width = kSpan / 4;
      shape.height = 2;
      shape.format = kFloatFormat;
      shape.channels = 1;
      ASSERT_EQ(context_->CreateArray(&shape, &array_), CudaResult::kSuccess);
    }
    ASSERT_EQ(context_->Memset(memory_, 0, 4, 4096, kLegacyStream), CudaResult::kSuccess);
  }

  void TearDown() override {
    if (array_ != ArrayId{}) context_->DestroyArray(array_);
    if (host_ != 0) {
      EXPECT_EQ(context_->UnmapHost(host_, kHostBytes), CudaResult::kSuccess);
    }
    if (theirs_ != nullptr) context_->FreeStaging(theirs_);
    DeviceFixture::TearDown();
  }

  // The commands on streams.
  std::vector<Way> Commands() {
    const auto memset = [this](int width) {
      return [this, width](const BoxPlace& place, const BoxExtent& extent) {
        return context_->Memset(place.address, 0, width,
                                extent.width / static_cast<uint64_t>(width), kLegacyStream);
      };
    };
    const auto word = [this](uint32_t kind) {
      return [this, kind](const BoxPlace& place, const BoxExtent&) {
        const MemOp op = {kind, 0, place.address, 0};
        return context_->MemOps({&op, 1}, kLegacyStream);
      };
    };
    const auto other = [this](const BoxExtent& extent) {
      return BoxPlace{memory_ + kMiB, extent.width, extent.width * extent.height};
    };
    return {
        {"copy to device", Shape::kRun, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyToDevice(place.address, staging_, extent.width, kLegacyStream);
         }},
        {"copy from device", Shape::kRun, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyFromDevice(staging_, place.address, extent.width, kLegacyStream);
         }},
        {"target of a copy", Shape::kRun, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyOnDevice(place.address, memory_ + kMiB, extent.width,
                                         kLegacyStream);
         }},
        {"source of a copy", Shape::kRun, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyOnDevice(memory_ + kMiB, place.address, extent.width,
                                         kLegacyStream);
         }},
        {"fill of bytes", Shape::kRun, kAll, memset(1)},
        {"fill of half words", Shape::kRun, kAll, memset(2)},
        {"fill of words", Shape::kRun, kAll, memset(4)},
        {"fill of rows", Shape::kRows, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->MemsetRows(place.address, place.pitch, 0, 1, extent.width,
                                       extent.height, kLegacyStream);
         }},
        {"box to device", Shape::kSlices, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyBoxToDevice(place, staging_, extent, kLegacyStream);
         }},
        {"box from device", Shape::kSlices, kAll,
         [this](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyBoxFromDevice(staging_, place, extent, kLegacyStream);
         }},
        {"target of a box", Shape::kSlices, kAll,
         [this, other](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyBoxOnDevice(place, other(extent), extent, kLegacyStream);
         }},
        {"source of a box", Shape::kSlices, kAll,
         [this, other](const BoxPlace& place, const BoxExtent& extent) {
           return context_->CopyBoxOnDevice(other(extent), place, extent, kLegacyStream);
         }},
        {"write of a word", Shape::kRun, kHost, word(MemOp::kWrite32)},
        {"write of a wide word", Shape::kRun, kHost, word(MemOp::kWrite64)},
        {"wait for a word", Shape::kRun, kHost, word(MemOp::kWait32)},
        {"wait for a wide word", Shape::kRun, kHost, word(MemOp::kWait64)},
    };
  }

  void AddArrays(std::vector<Way>* ways) {
    const auto in_array = [this] {
      ArrayEnd end;
      end.kind = ArrayEnd::Kind::kArray;
      end.array = array_;
      return end;
    };
    const auto on_device = [](const BoxPlace& place) {
      ArrayEnd end;
      end.kind = ArrayEnd::Kind::kDevice;
      end.place = place;
      return end;
    };
    ways->push_back({"copy to an array", Shape::kRows, kAll,
                     [=, this](const BoxPlace& place, const BoxExtent& extent) {
                       return context_->CopyArray(in_array(), on_device(place), extent,
                                                  kLegacyStream);
                     }});
    ways->push_back({"copy from an array", Shape::kRows, kAll,
                     [=, this](const BoxPlace& place, const BoxExtent& extent) {
                       return context_->CopyArray(on_device(place), in_array(), extent,
                                                  kLegacyStream);
                     }});
  }

  void AddTextures(std::vector<Way>* ways) {
    const auto texture = [this](uint32_t kind) {
      return [this, kind](const BoxPlace& place, const BoxExtent& extent) {
        Texture texture;
        texture.kind = kind;
        texture.address = place.address;
        texture.format = kFloatFormat;
        texture.channels = 1;
        texture.width = kind == Texture::kLinear ? extent.width : extent.width / 4;
        texture.height = extent.height;
        texture.pitch = place.pitch;
        uint64_t object = 0;
        const CudaResult result = context_->CreateTexture(texture, &object);
        if (result == CudaResult::kSuccess) context_->DestroyTexture(object, false);
        return result;
      };
    };
    ways->push_back({"linear texture", Shape::kRun, kArenaOnly, texture(Texture::kLinear)});
    ways->push_back({"pitched texture", Shape::kRows, kArenaOnly, texture(Texture::kPitch2D)});
  }

  CudaResult RunNode(const GraphNode& node) {
    GraphId graph{};
    CudaResult result = context_->CreateGraph({&node, 1}, &graph);
    if (result != CudaResult::kSuccess) return result;
    result = context_->LaunchGraph(graph, kLegacyStream);
    context_->DestroyGraph(graph);
    return result;
  }

  void AddGraphs(std::vector<Way>* ways) {
    const auto copy = [this](bool to) {
      return [this, to](const BoxPlace& place, const BoxExtent& extent) {
        const BoxPlace other = {memory_ + kMiB, extent.width, extent.width * extent.height};
        GraphNode node;
        node.kind = GraphNode::Kind::kCopy;
        node.dst = to ? place : other;
        node.src = to ? other : place;
        node.extent = extent;
        return RunNode(node);
      };
    };
    ways->push_back({"target of a graph's copy", Shape::kSlices, kAll, copy(true)});
    ways->push_back({"source of a graph's copy", Shape::kSlices, kAll, copy(false)});
    ways->push_back({"graph's fill", Shape::kRows, kAll,
                     [this](const BoxPlace& place, const BoxExtent& extent) {
                       GraphNode node;
                       node.kind = GraphNode::Kind::kMemset;
                       node.dst = place;
                       node.width = 1;
                       node.columns = extent.width;
                       node.rows = extent.height;
                       return RunNode(node);
                     }});
    ways->push_back({"graph's write of a word", Shape::kRun, kHost,
                     [this](const BoxPlace& place, const BoxExtent&) {
                       GraphNode node;
                       node.kind = GraphNode::Kind::kMemOps;
                       node.operations = {{MemOp::kWrite32, 0, place.address, 0}};
                       return RunNode(node);
                     }});
  }

  std::vector<Way> Ways() {
    std::vector<Way> ways = Commands();
    const Capabilities can = context_->capabilities();
    if (can.Has(Capability::kArrays)) AddArrays(&ways);
    if (can.Has(Capability::kTextures)) AddTextures(&ways);
    if (can.Has(Capability::kGraphs)) AddGraphs(&ways);
    return ways;
  }

  // What lies in the worker's process and is not the session's. All of it is kUntouched.
  std::vector<Foreign> OfTheWorker() {
    g_static.fill(kUntouched);
    heap_->fill(kUntouched);
    local_.fill(kUntouched);
    std::memset(theirs_, kUntouched, kStagingBytes);
    return {{"a static", reinterpret_cast<uint64_t>(g_static.data())},
            {"an object on the heap", reinterpret_cast<uint64_t>(heap_->data())},
            {"an object of the test", reinterpret_cast<uint64_t>(local_.data())},
            {"a staging buffer", reinterpret_cast<uint64_t>(theirs_)}};
  }

  static bool IsUntouched(const char* at, size_t bytes) {
    return *at == kUntouched && std::memcmp(at, at + 1, bytes - 1) == 0;
  }

  void ExpectUntouched() {
    EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess) << "a refusal is not sticky";
    EXPECT_TRUE(IsUntouched(g_static.data(), g_static.size()));
    EXPECT_TRUE(IsUntouched(heap_->data(), heap_->size()));
    EXPECT_TRUE(IsUntouched(local_.data(), local_.size()));
    EXPECT_TRUE(IsUntouched(static_cast<char*>(theirs_), kStagingBytes));
  }

  void ExpectAll(const BoxPlace& place, const BoxExtent& extent, Takes needed) {
    for (const Way& way : Ways()) {
      EXPECT_EQ(way.use(place, extent),
                (way.takes & needed) == needed ? CudaResult::kSuccess : CudaResult::kInvalidValue)
          << way.name;
    }
    EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  }

  std::unique_ptr<Bytes> heap_ = std::make_unique<Bytes>();
  Bytes local_;
  void* theirs_ = nullptr;  // A staging buffer that serves other commands.
  uint64_t host_ = 0;
  uint64_t table_ = 0;
  uint64_t factor_ = 0;
  ArrayId array_{};
};

TEST_P(AddressTest, TheArenaIsTheSessions) { ExpectAll({memory_, kSpan, 0}, {kSpan, 1, 1}, {}); }

TEST_P(AddressTest, MappedHostMemoryIsTheSessions) {
  ExpectAll({host_, kSpan, 0}, {kSpan, 1, 1}, kHost);
  ExpectAll({host_ + kHostBytes - kSpan, kSpan, 0}, {kSpan, 1, 1}, kHost);
}

TEST_P(AddressTest, BothEndsMayBeMappedHostMemory) {
  std::memset(reinterpret_cast<void*>(host_), 7, kSpan);
  std::memset(reinterpret_cast<void*>(host_ + kMiB), 0, 4 * kSpan);
  ASSERT_EQ(context_->CopyOnDevice(host_ + kMiB, host_, kSpan, kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(context_->CopyBoxOnDevice({host_ + kMiB + kSpan, kSpan, 0}, {host_, kSpan / 2, 0},
                                      {kSpan / 2, 2, 1}, kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  const char* const copied = reinterpret_cast<const char*>(host_ + kMiB);
  EXPECT_EQ(copied[0], 7);
  EXPECT_EQ(copied[kSpan + kSpan / 2 - 1], 7);
  EXPECT_EQ(copied[kSpan + kSpan / 2], 0);
  EXPECT_EQ(copied[2 * kSpan], 7);
}

TEST_P(AddressTest, VariablesAreTheSessions) {
  ExpectAll({table_, 16, 0}, {16, 1, 1}, kVariables);
  ExpectAll({table_, 8, 0}, {8, 2, 1}, kVariables);
}

TEST_P(AddressTest, ConstantsAreVariables) {
  const uint32_t value = 9;
  ASSERT_EQ(context_->CopyToDevice(factor_, &value, 4, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(factor_, 1), (std::vector<uint32_t>{9}));
  ASSERT_EQ(context_->CopyOnDevice(memory_, factor_, 4, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 1), (std::vector<uint32_t>{9}));
  ASSERT_EQ(context_->Memset(memory_, 5, 4, 1, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->CopyOnDevice(factor_, memory_, 4, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(factor_, 1), (std::vector<uint32_t>{5}));
  ASSERT_EQ(context_->Memset(factor_, 3, 4, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(factor_, 1), (std::vector<uint32_t>{3}));
}

TEST_P(AddressTest, NothingElseOfTheWorkerIs) {
  std::vector<Foreign> foreign = OfTheWorker();
  uint64_t local[kSpan / 8] = {};
  foreign.push_back({"a local", reinterpret_cast<uint64_t>(local)});
  foreign.push_back({"a function", reinterpret_cast<uint64_t>(&Function)});
  foreign.push_back({"the context", reinterpret_cast<uint64_t>(context_.get())});
  foreign.push_back({"nothing", 0});
  for (const Way& way : Ways()) {
    for (const Foreign& there : foreign) {
      EXPECT_EQ(way.use({there.address, kSpan, 0}, {kSpan, 1, 1}), CudaResult::kInvalidValue)
          << way.name << ", " << there.name;
    }
  }
  ExpectUntouched();
  for (const uint64_t word : local) EXPECT_EQ(word, 0u);
}

TEST_P(AddressTest, SpansThatLeaveWhatIsTheSessionsAreRefused) {
  const uint64_t end = base_ + kArenaBytes;
  const uint64_t host_end = host_ + kHostBytes;
  const Foreign edges[] = {
      {"before the arena", base_ - kSpan},
      {"one byte before the arena", base_ - 1},
      {"across the arena's beginning", base_ - 4},
      {"after the arena", end},
      {"across the arena's end", end - 4},
      {"before host memory", host_ - kSpan},
      {"across the beginning of host memory", host_ - 4},
      {"after host memory", host_end},
      {"across the end of host memory", host_end - 4},
      {"before the end of all addresses", uint64_t{0} - kSpan},
      {"across the end of all addresses", uint64_t{0} - 4},
  };
  for (const Way& way : Ways()) {
    for (const Foreign& edge : edges) {
      // The words that are written and waited for have 4 or 8 bytes.
      const bool inside = way.takes == kHost && edge.address % kSpan == kSpan - 4;
      if (inside && way.name.find("wide") == std::string_view::npos) continue;
      EXPECT_EQ(way.use({edge.address, kSpan, 0}, {kSpan, 1, 1}), CudaResult::kInvalidValue)
          << way.name << ", " << edge.name;
    }
  }
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

TEST_P(AddressTest, LongSpansAreRefusedWhereverTheyBegin) {
  for (const uint64_t begin : {memory_, host_, table_}) {
    for (const uint64_t bytes : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0} / 4 * 4}) {
      EXPECT_EQ(context_->CopyToDevice(begin, staging_, bytes, kLegacyStream),
                CudaResult::kInvalidValue);
      EXPECT_EQ(context_->CopyFromDevice(staging_, begin, bytes, kLegacyStream),
                CudaResult::kInvalidValue);
      EXPECT_EQ(context_->CopyOnDevice(memory_ + kMiB, begin, bytes, kLegacyStream),
                CudaResult::kInvalidValue);
      EXPECT_EQ(context_->CopyOnDevice(begin, memory_ + kMiB, bytes, kLegacyStream),
                CudaResult::kInvalidValue);
      EXPECT_EQ(context_->Memset(begin, 0, 4, bytes / 4, kLegacyStream), CudaResult::kInvalidValue);
    }
    // The size overflows to 4 bytes.
    EXPECT_EQ(context_->Memset(begin, 0, 4, (uint64_t{1} << 62) + 1, kLegacyStream),
              CudaResult::kInvalidValue);
  }
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

// The first row, or slice, is the session's, and the second the worker's.
TEST_P(AddressTest, EveryRowOfABoxIsLookedAt) {
  std::vector<Foreign> foreign = OfTheWorker();
  foreign.push_back({"before the arena", base_ - kSpan});
  foreign.push_back({"after the arena", base_ + kArenaBytes});
  foreign.push_back({"nothing", 0});
  for (const Way& way : Ways()) {
    if (way.shape == Shape::kRun) continue;
    for (const Foreign& there : foreign) {
      for (const uint64_t begin : {memory_, host_, table_}) {
        const uint64_t distance = there.address - begin;
        EXPECT_EQ(way.use({begin, distance, 0}, {16, 2, 1}), CudaResult::kInvalidValue)
            << way.name << ", rows, " << there.name;
        if (way.shape != Shape::kSlices) continue;
        EXPECT_EQ(way.use({begin, 16, distance / 16 * 16}, {16, 1, 2}), CudaResult::kInvalidValue)
            << way.name << ", slices, " << there.name;
      }
    }
  }
  ExpectUntouched();
}

TEST_P(AddressTest, HostMemoryThatIsGoneIsRefused) {
  ASSERT_EQ(context_->UnmapHost(host_, kHostBytes), CudaResult::kSuccess);
  EXPECT_EQ(context_->UnmapHost(host_, kHostBytes), CudaResult::kInvalidValue);
  for (const Way& way : Ways()) {
    EXPECT_EQ(way.use({host_, kSpan, 0}, {kSpan, 1, 1}), CudaResult::kInvalidValue) << way.name;
  }
  host_ = 0;
}

TEST_P(AddressTest, VariablesThatAreGoneAreRefused) {
  ModuleId module{};
  std::swap(module, module_);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->UnloadModule(module), CudaResult::kSuccess);
  // A driver may keep a block for what it loads next, but a span that leaves it is refused.
  const CudaResult result = context_->CopyFromDevice(staging_, table_, 16, kLegacyStream);
  EXPECT_TRUE(result == CudaResult::kInvalidValue || result == CudaResult::kSuccess);
  EXPECT_EQ(context_->CopyFromDevice(staging_, table_, uint64_t{1} << 40, kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

TEST_P(AddressTest, PartsOfTheArenaWithoutMemoryAreRefused) {
  for (const uint64_t at : {base_ + 1024 * kMiB, memory_ + 2 * kMiB - kSpan / 2}) {
    EXPECT_EQ(context_->CopyToDevice(at, staging_, kSpan, kLegacyStream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(context_->CopyFromDevice(staging_, at, kSpan, kLegacyStream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(context_->CopyOnDevice(at, memory_, kSpan, kLegacyStream), CudaResult::kInvalidValue);
    EXPECT_EQ(context_->CopyOnDevice(memory_, at, kSpan, kLegacyStream), CudaResult::kInvalidValue);
    EXPECT_EQ(context_->Memset(at, 0, 1, kSpan, kLegacyStream), CudaResult::kInvalidValue);
  }
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

// A window on memory of the worker is left out, and so does no harm.
TEST_P(AddressTest, HintsAboutTheWorkersMemorySayNothing) {
  LaunchAttribute window;
  window.id = 1;  // CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
  const auto address = reinterpret_cast<uint64_t>(g_static.data());
  const uint64_t bytes = g_static.size();
  std::memcpy(window.value.data(), &address, sizeof(address));
  std::memcpy(window.value.data() + 8, &bytes, sizeof(bytes));
  EXPECT_EQ(context_->SetStreamAttribute(kLegacyStream, window), CudaResult::kSuccess);
  LaunchConfig config = {{1, 1, 1}, {1, 1, 1}, 0};
  config.attributes.push_back(window);
  EXPECT_EQ(Launch(Find("store"), config, kLegacyStream, memory_), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 1), (std::vector<uint32_t>{42}));
}

INSTANTIATE_TEST_SUITE_P(Backends, AddressTest, ::testing::ValuesIn(DeviceFixture::Backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace warpline::device
