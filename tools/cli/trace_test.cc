#include "tools/cli/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using ::testing::HasSubstr;
using warpline_internal::TraceReply;

TEST(TraceTest, SpansBecomeEventsInRowsWithNames) {
  TraceReply reply;
  auto* const gpu = reply.add_gpus();
  gpu->set_gpu(2);
  auto* const slice = gpu->add_slices();
  slice->set_slice(7);
  slice->set_name("a \"b\"\n");
  auto* const turn = gpu->add_spans();
  turn->set_kind("turn");
  turn->set_reason("used_up");
  turn->set_slice(7);
  turn->set_begin_ns(1'000'000);
  turn->set_end_ns(7'000'000);
  turn->set_charged_ns(6'000'000);
  auto* const wait = gpu->add_spans();
  wait->set_kind("wait");
  wait->set_reason("turn_of_another");
  wait->set_engine(1);
  wait->set_slice(8);
  wait->set_other(7);
  wait->set_begin_ns(2'000'000);
  wait->set_end_ns(2'500'000);
  auto* const limit = gpu->add_spans();
  *limit = *wait;
  limit->set_kind("limit");
  limit->set_reason("expected");
  const std::string json = TraceJson({reply});
  EXPECT_THAT(json, HasSubstr(R"("ph":"X","pid":2,"tid":0,"ts":0.000,"dur":6000.000)"));
  EXPECT_THAT(json, HasSubstr(R"("charged_us":6000)"));
  EXPECT_THAT(json, HasSubstr(R"("ts":1000.000,"dur":500.000)"));
  EXPECT_THAT(json, HasSubstr(R"x("reason":"turn_of_another","for":"a \"b\"\\n (slice 7)")x"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"name":"copies in: slice 8 wait"})"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"name":"copies in: slice 8 limit"})"));
  EXPECT_THAT(json, HasSubstr(R"("name":"process_name","ph":"M","pid":2)"));
}

TEST(TraceTest, NothingIsATraceToo) {
  EXPECT_THAT(TraceJson({}), HasSubstr("\"traceEvents\":[\n\n]"));
}

}  // namespace
}  // namespace warpline::cli
