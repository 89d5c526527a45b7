#include "server/gpu_server/dispatch/slot_reader.h"

#include <gtest/gtest.h>

namespace warpline::dispatch {
namespace {

constexpr int64_t kUs = 1000;

// Not on a stack, where GCC's address sanitizer does not align by 64.
class SlotReaderTest : public testing::Test {
 protected:
  WorkerLine line_;
  SlotReader reader_;
};

TEST_F(SlotReaderTest, CountsWhatIsUnderWayOnce) {
  reader_.Read(line_, 1000 * kUs);
  line_.executors_in_flight = 1;
  line_.busy_since_ns = 1100 * kUs;
  EXPECT_EQ(reader_.Read(line_, 1300 * kUs).busy_ns, 200 * kUs);
  EXPECT_EQ(reader_.Read(line_, 1400 * kUs).busy_ns, 100 * kUs);
  // It ends, and is added to what was done.
  line_.executors_in_flight = 0;
  line_.busy_ns = 350 * kUs;
  EXPECT_EQ(reader_.Read(line_, 1500 * kUs).busy_ns, 50 * kUs);
  EXPECT_EQ(reader_.Read(line_, 1600 * kUs).busy_ns, 0);
}

TEST_F(SlotReaderTest, NobodyIsBusyForLongerThanHasPassed) {
  reader_.Read(line_, 1000 * kUs);
  line_.busy_ns = ~uint64_t{0};
  EXPECT_EQ(reader_.Read(line_, 1010 * kUs).busy_ns, 10 * kUs);
  line_.executors_in_flight = 5;
  line_.busy_since_ns = INT64_MIN;
  EXPECT_LE(reader_.Read(line_, 1020 * kUs).busy_ns, 10 * kUs);
  line_.busy_since_ns = INT64_MAX;
  EXPECT_LE(reader_.Read(line_, 1030 * kUs).busy_ns, 10 * kUs);
}

TEST_F(SlotReaderTest, NumbersThatGoBackwardsAreNothingNew) {
  line_.commands = 10;
  line_.bytes = 100;
  EXPECT_EQ(reader_.Read(line_, kUs).commands, 10u);
  line_.commands = 4;
  line_.bytes = 0;
  const SlotReading back = reader_.Read(line_, 2 * kUs);
  EXPECT_EQ(back.commands, 0u);
  EXPECT_EQ(back.bytes, 0u);
  line_.commands = 5;
  EXPECT_EQ(reader_.Read(line_, 3 * kUs).commands, 1u);
}

TEST_F(SlotReaderTest, NobodyHasMoreThanAllMultiprocessors) {
  EXPECT_EQ(reader_.Read(line_, kUs).share, 0u);
  line_.share = 90;
  EXPECT_EQ(reader_.Read(line_, 2 * kUs).share, 90u);
  line_.share = ~uint32_t{0};
  EXPECT_EQ(reader_.Read(line_, 3 * kUs).share, 1000u);
}

}  // namespace
}  // namespace warpline::dispatch
