#include "server/dispatch/slot_reader.h"

#include <gtest/gtest.h>

namespace warpline::dispatch {
namespace {

constexpr int64_t kUs = 1000;

TEST(SlotReader, CountsWhatIsUnderWayOnce) {
  WorkerLine line;
  SlotReader reader;
  reader.Read(line, 1000 * kUs);
  line.lanes_in_flight = 1;
  line.busy_since_ns = 1100 * kUs;
  EXPECT_EQ(reader.Read(line, 1300 * kUs).busy_ns, 200 * kUs);
  EXPECT_EQ(reader.Read(line, 1400 * kUs).busy_ns, 100 * kUs);
  // It ends, and is added to what was done.
  line.lanes_in_flight = 0;
  line.busy_ns = 350 * kUs;
  EXPECT_EQ(reader.Read(line, 1500 * kUs).busy_ns, 50 * kUs);
  EXPECT_EQ(reader.Read(line, 1600 * kUs).busy_ns, 0);
}

TEST(SlotReader, NobodyIsBusyForLongerThanHasPassed) {
  WorkerLine line;
  SlotReader reader;
  reader.Read(line, 1000 * kUs);
  line.busy_ns = ~uint64_t{0};
  EXPECT_EQ(reader.Read(line, 1010 * kUs).busy_ns, 10 * kUs);
  line.lanes_in_flight = 5;
  line.busy_since_ns = INT64_MIN;
  EXPECT_LE(reader.Read(line, 1020 * kUs).busy_ns, 10 * kUs);
  line.busy_since_ns = INT64_MAX;
  EXPECT_LE(reader.Read(line, 1030 * kUs).busy_ns, 10 * kUs);
}

TEST(SlotReader, NumbersThatGoBackwardsAreNothingNew) {
  WorkerLine line;
  SlotReader reader;
  line.commands = 10;
  line.bytes = 100;
  EXPECT_EQ(reader.Read(line, kUs).commands, 10u);
  line.commands = 4;
  line.bytes = 0;
  const SlotReading back = reader.Read(line, 2 * kUs);
  EXPECT_EQ(back.commands, 0u);
  EXPECT_EQ(back.bytes, 0u);
  line.commands = 5;
  EXPECT_EQ(reader.Read(line, 3 * kUs).commands, 1u);
}

TEST(SlotReader, NobodyHasMoreThanAllMultiprocessors) {
  WorkerLine line;
  SlotReader reader;
  EXPECT_EQ(reader.Read(line, kUs).share, 0u);
  line.share = 90;
  EXPECT_EQ(reader.Read(line, 2 * kUs).share, 90u);
  line.share = ~uint32_t{0};
  EXPECT_EQ(reader.Read(line, 3 * kUs).share, 1000u);
}

}  // namespace
}  // namespace warpline::dispatch
