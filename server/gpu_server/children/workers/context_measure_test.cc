#include "server/gpu_server/children/workers/context_measure.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {
namespace {

class ContextMeasureTest : public testing::Test {
 protected:
  std::shared_ptr<ContextMeasure> Begin() {
    return ContextMeasure::Begin(
        [this](ContextMeasure::Answer answer) { asked_.push_back(std::move(answer)); });
  }
  void Answer(std::optional<uint64_t> bytes) {
    const ContextMeasure::Answer answer = std::move(asked_.front());
    asked_.pop_front();
    answer(bytes);
  }
  // What is told of two answers.
  std::vector<uint64_t> Took(std::optional<uint64_t> before, std::optional<uint64_t> after) {
    std::vector<uint64_t> took;
    const auto measure = Begin();
    measure->End([&](uint64_t bytes) { took.push_back(bytes); });
    Answer(before);
    Answer(after);
    return took;
  }

  const LoopScope on_loop_{&control_loop};
  std::deque<ContextMeasure::Answer> asked_;
};

TEST_F(ContextMeasureTest, TellsWhatOthersHaveMoreAfterwards) {
  EXPECT_EQ(Took(500, 2100), std::vector<uint64_t>{1600});
}

TEST_F(ContextMeasureTest, TellsNothingThatCannotBe) {
  EXPECT_TRUE(Took(std::nullopt, 2100).empty());
  EXPECT_TRUE(Took(500, std::nullopt).empty());
  EXPECT_TRUE(Took(500, 400).empty()) << "others gave memory back";
}

TEST_F(ContextMeasureTest, TellsNothingOnceItIsDropped) {
  auto measure = Begin();
  measure->End([](uint64_t) { FAIL(); });
  measure.reset();
  Answer(500);
  Answer(2100);
}

}  // namespace
}  // namespace warpline::server
