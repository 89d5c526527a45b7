#include "server/gpu_server/dispatch/flight_recorder.h"

#include "gtest/gtest.h"

namespace warpline::dispatch {
namespace {

TraceSpan Span(uint32_t slice) { return {.slice = slice, .begin_ns = slice, .end_ns = slice + 1}; }

TEST(FlightRecorderTest, GivesWhatCameSinceInParts) {
  FlightRecorder recorder(8);
  for (uint32_t i = 1; i <= 5; ++i) recorder.Add(Span(i));
  TracePart part = recorder.After(0, 3);
  ASSERT_EQ(part.spans.size(), 3u);
  EXPECT_EQ(part.spans[0].slice, 1u);
  part = recorder.After(part.next, 3);
  ASSERT_EQ(part.spans.size(), 2u);
  EXPECT_EQ(part.spans[1].slice, 5u);
  EXPECT_EQ(part.lost, 0u);
  EXPECT_TRUE(recorder.After(part.next, 3).spans.empty());
  recorder.Add(Span(6));
  EXPECT_EQ(recorder.After(part.next, 3).spans.size(), 1u);
}

TEST(FlightRecorderTest, SaysHowManyItHasNoMore) {
  FlightRecorder recorder(4);
  for (uint32_t i = 1; i <= 10; ++i) recorder.Add(Span(i));
  const TracePart part = recorder.After(2, 100);
  EXPECT_EQ(part.lost, 4u);
  ASSERT_EQ(part.spans.size(), 4u);
  EXPECT_EQ(part.spans.front().slice, 7u);
  EXPECT_EQ(part.spans.back().slice, 10u);
  EXPECT_EQ(recorder.Latest(2).front().slice, 9u);
  EXPECT_EQ(recorder.Latest(100).size(), 4u);
  // Whoever asks for what is yet to come gets nothing, and hears where to go on.
  EXPECT_EQ(recorder.After(1000, 100).next, 10u);
  EXPECT_EQ(recorder.After(0, 0).next, 10u);
}

TEST(FlightRecorderTest, NamesTheSlicesOfItsSpans) {
  FlightRecorder recorder(4);
  recorder.NameSlice(1, "a");
  recorder.NameSlice(2, "b");
  recorder.NameSlice(3, "c");
  TraceSpan span = Span(1);
  span.other = 3;
  recorder.Add(span);
  const TracePart part = recorder.After(0, 1);
  EXPECT_EQ(part.slices.size(), 2u);
  EXPECT_EQ(part.slices.at(3), "c");
}

}  // namespace
}  // namespace warpline::dispatch
