// What guarded kernels print, assert and trap arrives as records.
#include "guard/records.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "guard/guard.h"
#include "tests/guard/two_arenas.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kRoom = 40;

// Each thread prints its number; thread 3 then fails an assertion, and thread 5 traps.
constexpr char kText[] = R"(.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line,
                           .param .b64 function, .param .b64 width);
.global .align 1 .b8 format[11] = {116, 104, 114, 101, 97, 100, 32, 37, 117, 10, 0};
.global .align 1 .b8 message[5] = {102, 97, 108, 115, 101};
.visible .entry k(.param .u64 out)
{
  .local .align 8 .b8 depot[8];
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<9>;
  .param .b64 f;
  .param .b64 a;
  .param .b32 r;
  mov.u64 %rd1, depot;
  cvta.local.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  st.local.u32 [%rd1], %r1;
  mov.u64 %rd3, format;
  cvta.global.u64 %rd4, %rd3;
  st.param.b64 [f], %rd4;
  st.param.b64 [a], %rd2;
  call.uni (r), vprintf, (f, a);
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra NEXT;
  {
    .param .b64 m;
    .param .b64 n;
    .param .b32 l;
    .param .b64 u;
    .param .b64 w;
    mov.u64 %rd5, message;
    st.param.b64 [m], %rd5;
    st.param.b64 [n], %rd4;
    mov.u32 %r2, 77;
    st.param.b32 [l], %r2;
    st.param.b64 [u], %rd4;
    mov.u64 %rd6, 1;
    st.param.b64 [w], %rd6;
    call.uni __assertfail, (m, n, l, u, w);
  }
NEXT:
  setp.eq.u32 %p2, %r1, 5;
  @%p2 trap;
  ld.param.u64 %rd7, [out];
  mul.wide.u32 %rd8, %r1, 4;
  add.s64 %rd7, %rd7, %rd8;
  mov.u32 %r3, 1;
  st.global.u32 [%rd7], %r3;
  ret;
}
)";

class RecordsTest : public ::testing::TestWithParam<bool> {
 protected:
  void Run(uint32_t room) {
    auto arenas = TwoArenas::Open("cpu");
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    const auto guarded =
        Guard(kText, {.arena_bits = TwoArenas::kArenaBits, .hardened = GetParam()});
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    ASSERT_EQ(guarded->kernels.size(), 1u) << guarded->refusals[0].reason;
    TwoArenas::Tenant& tenant = (*arenas)->attacker();
    globals_ = tenant.globals;
    ASSERT_EQ((*arenas)->Write(tenant.records, {0, room}), CudaResult::kSuccess);
    const auto kernel = (*arenas)->LoadFor(tenant, *guarded, "k");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<std::byte> params(8);
    std::memcpy(params.data(), &tenant.memory, 8);
    ASSERT_EQ((*arenas)->Run(*kernel, 32, 0, params), CudaResult::kSuccess);
    ASSERT_EQ((*arenas)->Read(tenant.memory, 32, &done_), CudaResult::kSuccess);
    std::vector<uint32_t> words;
    ASSERT_EQ((*arenas)->Read(tenant.records, (64 + kRoom * 320) / 4, &words),
              CudaResult::kSuccess);
    std::memcpy(static_cast<void*>(&header_), words.data(), sizeof(header_));
    records_.resize(kRoom);
    std::memcpy(static_cast<void*>(records_.data()), words.data() + 16, kRoom * sizeof(Record));
  }

  uint64_t globals_ = 0;
  std::vector<uint32_t> done_;
  RecordsHeader header_;
  std::vector<Record> records_;
};

TEST_P(RecordsTest, SayWhatEachThreadPrintedAndWhyItEnded) {
  ASSERT_NO_FATAL_FAILURE(Run(kRoom));
  EXPECT_EQ(header_.taken, 34u);
  std::vector<int> printed(32);
  for (const Record& record : records_) {
    switch (static_cast<RecordKind>(record.kind)) {
      case RecordKind::kNone:
        break;
      case RecordKind::kPrint:
        EXPECT_EQ(record.text, globals_);
        EXPECT_EQ(static_cast<uint32_t>(record.arguments[0]), record.thread[0]);
        ASSERT_LT(record.thread[0], 32u);
        ++printed[record.thread[0]];
        break;
      case RecordKind::kAssert:
        EXPECT_EQ(record.thread[0], 3u);
        EXPECT_EQ(record.line, 77u);
        EXPECT_EQ(record.text, globals_ + 11);
        EXPECT_EQ(record.file, globals_);
        break;
      case RecordKind::kTrap:
        EXPECT_EQ(record.thread[0], 5u);
        EXPECT_EQ(record.line, 47u);
        break;
      case RecordKind::kOutOfBounds:
      case RecordKind::kMisaligned:
      case RecordKind::kOutOfShared:
      case RecordKind::kTooDeep:
        ADD_FAILURE() << "there is nothing of the kind";
        break;
    }
  }
  EXPECT_EQ(printed, std::vector<int>(32, 1));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(done_[i], i == 3 || i == 5 ? 0u : 1u) << i;
}

TEST_P(RecordsTest, WithoutRoomThreadsGoOn) {
  ASSERT_NO_FATAL_FAILURE(Run(0));
  for (const Record& record : records_) EXPECT_EQ(record.kind, 0u);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(done_[i], i == 3 || i == 5 ? 0u : 1u) << i;
}

INSTANTIATE_TEST_SUITE_P(Modes, RecordsTest, ::testing::Bool());

}  // namespace
}  // namespace warpline::guard
