#include "server/worker/continuity/variable_placer.h"

#include <gtest/gtest.h>

#include <set>

#include "server/worker/executors/session_log.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kFirst = 0x500000000000;

// A driver that takes blocks for variables from the lowest free place.
class Driver : public FakeContext {
 public:
  static uint64_t At(int block) { return kFirst + block * device::kBlockBytes; }

  CudaResult LoadModule(std::string_view, device::ModuleId* module) override {
    *module = static_cast<device::ModuleId>(Take());
    ++loads;
    return CudaResult::kSuccess;
  }
  CudaResult UnloadModule(device::ModuleId module) override {
    taken_.erase(static_cast<uint64_t>(module));
    return CudaResult::kSuccess;
  }
  CudaResult FindGlobal(device::ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override {
    if (name == "missing") return CudaResult::kNotFound;
    *address = static_cast<uint64_t>(module) + (name == "second" ? 256 : 0);
    *bytes = 16;
    return CudaResult::kSuccess;
  }
  CudaResult TakeBlock(uint64_t* address) override {
    if (taken_.size() >= most) return CudaResult::kOutOfMemory;
    *address = Take();
    return CudaResult::kSuccess;
  }
  void FreeBlock(uint64_t address) override { EXPECT_EQ(taken_.erase(address), 1u); }

  uint64_t Take() {
    uint64_t at = kFirst;
    while (taken_.contains(at)) at += device::kBlockBytes;
    taken_.insert(at);
    return at;
  }
  size_t taken() const { return taken_.size(); }

  size_t most = 1000;
  int loads = 0;

 private:
  std::set<uint64_t> taken_;
};

class VariablePlacerTest : public ::testing::Test {
 protected:
  // Loads a module whose variables must lie as `wanted` says.
  CudaResult Load(VariablePlacer* placer, const VariablePlacer::Wanted& wanted, bool* in_place) {
    const auto load = [&](device::ModuleId* module) { return driver_.LoadModule("", module); };
    device::ModuleId module{};
    EXPECT_EQ(load(&module), CudaResult::kSuccess);
    return placer->Place(wanted, load, &module, in_place);
  }

  Driver driver_;
  LogBudget log_{kSessionLines};
};

TEST_F(VariablePlacerTest, LeavesWhatIsInPlace) {
  VariablePlacer placer(&driver_, &log_);
  bool in_place = false;
  EXPECT_EQ(Load(&placer, {{"first", Driver::At(0)}, {"second", Driver::At(0) + 256}}, &in_place),
            CudaResult::kSuccess);
  EXPECT_TRUE(in_place);
  EXPECT_EQ(driver_.loads, 1);
}

TEST_F(VariablePlacerTest, FillsTheBlocksBeforeAndGivesThemBack) {
  {
    VariablePlacer placer(&driver_, &log_);
    bool in_place = false;
    EXPECT_EQ(Load(&placer, {{"first", Driver::At(7)}}, &in_place), CudaResult::kSuccess);
    EXPECT_TRUE(in_place);
    EXPECT_EQ(driver_.taken(), 8u);
  }
  EXPECT_EQ(driver_.taken(), 1u);
}

// The former worker had freed a lower block before it loaded the second module.
TEST_F(VariablePlacerTest, ModulesMayLieInAnyOrder) {
  VariablePlacer placer(&driver_, &log_);
  for (const int block : {5, 2, 9, 0}) {
    bool in_place = false;
    EXPECT_EQ(Load(&placer, {{"first", Driver::At(block)}}, &in_place), CudaResult::kSuccess);
    EXPECT_TRUE(in_place) << block;
  }
}

TEST_F(VariablePlacerTest, GivesUpWhenNothingHelps) {
  driver_.most = 20;
  VariablePlacer placer(&driver_, &log_);
  bool in_place = true;
  EXPECT_EQ(Load(&placer, {{"first", Driver::At(100)}}, &in_place), CudaResult::kSuccess);
  EXPECT_FALSE(in_place);
  in_place = true;
  EXPECT_EQ(Load(&placer, {{"first", 0x1234}}, &in_place), CudaResult::kSuccess);
  EXPECT_FALSE(in_place);
}

TEST_F(VariablePlacerTest, ReportsWhatTheDeviceRefuses) {
  VariablePlacer placer(&driver_, &log_);
  bool in_place = true;
  EXPECT_EQ(Load(&placer, {{"missing", Driver::At(0)}}, &in_place), CudaResult::kNotFound);
  EXPECT_FALSE(in_place);
}

}  // namespace
}  // namespace warpline::worker
