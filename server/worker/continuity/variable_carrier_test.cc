#include "server/worker/continuity/variable_carrier.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/hostlink/handover/variable_file.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {
namespace {

// A context whose modules' variables lie in host memory.
class VariableContext : public FakeContext {
 public:
  void Add(uint64_t module, const std::string& name, std::string* contents) {
    variables_[{module, name}] = contents;
  }
  void Move(uint64_t by) { moved_ = by; }

  CudaResult FindGlobal(device::ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override {
    const auto found = variables_.find({static_cast<uint64_t>(module), name});
    if (found == variables_.end()) return CudaResult::kNotFound;
    *address = kStart + moved_;
    for (auto it = variables_.begin(); it != found; ++it) *address += kApart;
    *bytes = found->second->size();
    return CudaResult::kSuccess;
  }
  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes, device::StreamId) override {
    At(dst)->replace(dst % kApart, bytes, static_cast<const char*>(src), bytes);
    return CudaResult::kSuccess;
  }
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, device::StreamId) override {
    At(src)->copy(static_cast<char*>(dst), bytes, src % kApart);
    return CudaResult::kSuccess;
  }

 private:
  static constexpr uint64_t kApart = 1ull << 32;
  static constexpr uint64_t kStart = 16 * kApart;

  std::string* At(uint64_t address) {
    auto it = variables_.begin();
    std::advance(it, (address - kStart - moved_) / kApart);
    return it->second;
  }

  std::map<std::pair<uint64_t, std::string>, std::string*> variables_;
  uint64_t moved_ = 0;
};

class VariableCarrierTest : public testing::Test {
 protected:
  VariableCarrierTest() {
    auto file = CreateVariableFile();
    EXPECT_TRUE(file.ok());
    file_ = *std::move(file);
    context_.Add(5, "counter", &counter_);
    context_.Add(5, "table", &table_);
    context_.Add(6, "counter", &other_);
    Load(&former_);
    Load(&next_);
  }

  static void Load(VariableCarrier* carrier) {
    carrier->OnLoaded(100, device::ModuleId{5}, {{"counter", "table"}, true, false});
    carrier->OnLoaded(200, device::ModuleId{6}, {{"counter"}, true, false});
  }

  absl::Status Save() {
    return former_.Save(file_.get(), [this](uint64_t module, const std::string& name,
                                            uint64_t address, uint64_t bytes) {
      told_.push_back(absl::StrCat(module, " ", name, " at ", address >> 32, " of ", bytes));
    });
  }

  std::vector<std::string> told_;
  std::string counter_ = "four";
  // It is longer than one copy.
  std::string table_ = std::string(3'000'001, 't');
  std::string other_ = "else";
  VariableContext context_;
  VariableCarrier former_{&context_, &context_};
  VariableCarrier next_{&context_, &context_};
  UniqueFd file_;
};

TEST_F(VariableCarrierTest, ContentsComeToTheNextWorker) {
  table_[2'000'000] = 'x';
  const std::string table = table_;
  ASSERT_TRUE(Save().ok());
  counter_ = "0000";
  table_.assign(table.size(), '0');
  other_ = "0000";
  const absl::Status restored = next_.Restore(file_.get());
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(told_, (std::vector<std::string>{"100 counter at 16 of 4", "100 table at 17 of 3000001",
                                             "200 counter at 18 of 4"}));
  EXPECT_EQ(counter_, "four");
  EXPECT_TRUE(table_ == table);
  EXPECT_EQ(other_, "else");
}

TEST_F(VariableCarrierTest, WhatTheClientFoundIsCarriedToo) {
  std::string constant = "constant";
  context_.Add(6, "limits", &constant);
  former_.OnFound(200, "limits");
  ASSERT_TRUE(Save().ok());
  constant = "00000000";
  ASSERT_TRUE(next_.Restore(file_.get()).ok());
  EXPECT_EQ(constant, "constant");
}

TEST_F(VariableCarrierTest, UnloadedModulesAreNotCarried) {
  former_.OnUnloading(100);
  ASSERT_TRUE(Save().ok());
  counter_ = "0000";
  ASSERT_TRUE(next_.Restore(file_.get()).ok());
  EXPECT_EQ(counter_, "0000");
}

TEST_F(VariableCarrierTest, VariablesThatMovedAreNotRestored) {
  ASSERT_TRUE(Save().ok());
  context_.Move(1ull << 32);
  EXPECT_EQ(next_.Restore(file_.get()).code(), absl::StatusCode::kAborted);
}

TEST_F(VariableCarrierTest, WhatCannotAllBeToldIsNotSaved) {
  former_.OnLoaded(300, device::ModuleId{7}, {{}, false, false});
  EXPECT_EQ(Save().code(), absl::StatusCode::kFailedPrecondition);
  former_.OnLoaded(300, device::ModuleId{7}, {{"missing"}, true, false});
  EXPECT_EQ(Save().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(VariableCarrierTest, OtherFilesAreRefused) {
  EXPECT_EQ(next_.Restore(file_.get()).code(), absl::StatusCode::kInvalidArgument);
  const UniqueFd empty(memfd_create("empty", MFD_CLOEXEC));
  EXPECT_EQ(next_.Restore(empty.get()).code(), absl::StatusCode::kInvalidArgument);
  // The file ends in the middle of a table.
  VariableFileHead head;
  head.count = 1;
  SavedVariable saved;
  saved.name_bytes = ~uint64_t{0};
  ASSERT_EQ(pwrite(file_.get(), &head, sizeof(head), 0), ssize_t{sizeof(head)});
  ASSERT_EQ(pwrite(file_.get(), &saved, sizeof(saved), sizeof(head)), ssize_t{sizeof(saved)});
  EXPECT_EQ(next_.Restore(file_.get()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline::worker
