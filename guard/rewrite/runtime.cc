#include "guard/rewrite/runtime.h"

#include <cstdlib>
#include <variant>

#include "ptx/parser.h"

namespace warpline::guard {
namespace {

// guard/records.h has the form of a record, and of the ranges that a check looks up.
constexpr std::string_view kText = R"(.version 8.0
.target sm_70
.address_size 64

.func (.param .b32 result) $guard_record(.param .b32 kind, .param .b32 line, .param .b64 text,
                                         .param .b64 file, .param .b64 function,
                                         .param .b64 arguments)
{
  .reg .pred %p<5>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.const.u64 %rd1, [$guard_words+24];
  setp.eq.s64 %p1, %rd1, 0;
  @%p1 bra NONE;
  atom.global.add.u32 %r1, [%rd1], 1;
  ld.global.u32 %r2, [%rd1+4];
  setp.ge.u32 %p2, %r1, %r2;
  @%p2 bra NONE;
  mul.wide.u32 %rd2, %r1, 320;
  add.s64 %rd2, %rd2, %rd1;
  ld.param.u32 %r3, [line];
  st.global.u32 [%rd2+68], %r3;
  ld.param.u64 %rd3, [text];
  st.global.u64 [%rd2+72], %rd3;
  ld.param.u64 %rd3, [file];
  st.global.u64 [%rd2+80], %rd3;
  ld.param.u64 %rd3, [function];
  st.global.u64 [%rd2+88], %rd3;
  mov.u32 %r3, %ctaid.x;
  st.global.u32 [%rd2+96], %r3;
  mov.u32 %r3, %ctaid.y;
  st.global.u32 [%rd2+100], %r3;
  mov.u32 %r3, %ctaid.z;
  st.global.u32 [%rd2+104], %r3;
  mov.u32 %r3, %tid.x;
  st.global.u32 [%rd2+108], %r3;
  mov.u32 %r3, %tid.y;
  st.global.u32 [%rd2+112], %r3;
  mov.u32 %r3, %tid.z;
  st.global.u32 [%rd2+116], %r3;
  ld.param.u64 %rd4, [arguments];
  setp.eq.s64 %p3, %rd4, 0;
  @%p3 bra WRITTEN;
  mov.u32 %r4, 0;
  add.s64 %rd5, %rd2, 128;
COPY:
  ld.u64 %rd6, [%rd4];
  st.global.u64 [%rd5], %rd6;
  add.s64 %rd4, %rd4, 8;
  add.s64 %rd5, %rd5, 8;
  add.s32 %r4, %r4, 1;
  setp.lt.u32 %p4, %r4, 32;
  @%p4 bra COPY;
WRITTEN:
  ld.param.u32 %r5, [kind];
  st.global.u32 [%rd2+64], %r5;
  mov.u32 %r6, 0;
  st.param.b32 [result], %r6;
  ret;
NONE:
  mov.u32 %r6, -1;
  st.param.b32 [result], %r6;
  ret;
}

.func (.param .b32 result) $guard_vprintf(.param .b64 format, .param .b64 arguments)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .param .b32 a0;
  .param .b32 a1;
  .param .b64 a2;
  .param .b64 a3;
  .param .b64 a4;
  .param .b64 a5;
  .param .b32 r0;
  mov.u32 %r1, 1;
  st.param.b32 [a0], %r1;
  mov.u32 %r2, 0;
  st.param.b32 [a1], %r2;
  ld.param.u64 %rd1, [format];
  st.param.b64 [a2], %rd1;
  mov.u64 %rd2, 0;
  st.param.b64 [a3], %rd2;
  st.param.b64 [a4], %rd2;
  ld.param.u64 %rd3, [arguments];
  st.param.b64 [a5], %rd3;
  call (r0), $guard_record, (a0, a1, a2, a3, a4, a5);
  ld.param.b32 %r3, [r0];
  st.param.b32 [result], %r3;
  ret;
}

.func $guard_assertfail(.param .b64 message, .param .b64 file, .param .b32 line,
                        .param .b64 function, .param .b64 width)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<5>;
  .param .b32 a0;
  .param .b32 a1;
  .param .b64 a2;
  .param .b64 a3;
  .param .b64 a4;
  .param .b64 a5;
  .param .b32 r0;
  mov.u32 %r1, 2;
  st.param.b32 [a0], %r1;
  ld.param.u32 %r2, [line];
  st.param.b32 [a1], %r2;
  ld.param.u64 %rd1, [message];
  st.param.b64 [a2], %rd1;
  ld.param.u64 %rd2, [file];
  st.param.b64 [a3], %rd2;
  ld.param.u64 %rd3, [function];
  st.param.b64 [a4], %rd3;
  mov.u64 %rd4, 0;
  st.param.b64 [a5], %rd4;
  call (r0), $guard_record, (a0, a1, a2, a3, a4, a5);
  exit;
}

.func $guard_trap(.param .b32 line)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  .param .b32 a0;
  .param .b32 a1;
  .param .b64 a2;
  .param .b64 a3;
  .param .b64 a4;
  .param .b64 a5;
  .param .b32 r0;
  mov.u32 %r1, 3;
  st.param.b32 [a0], %r1;
  ld.param.u32 %r2, [line];
  st.param.b32 [a1], %r2;
  mov.u64 %rd1, 0;
  st.param.b64 [a2], %rd1;
  st.param.b64 [a3], %rd1;
  st.param.b64 [a4], %rd1;
  st.param.b64 [a5], %rd1;
  call (r0), $guard_record, (a0, a1, a2, a3, a4, a5);
  exit;
}

.func $guard_too_deep(.param .b32 line, .param .b32 levels)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  .param .b32 a0;
  .param .b32 a1;
  .param .b64 a2;
  .param .b64 a3;
  .param .b64 a4;
  .param .b64 a5;
  .param .b32 r0;
  mov.u32 %r1, 7;
  st.param.b32 [a0], %r1;
  ld.param.u32 %r2, [line];
  st.param.b32 [a1], %r2;
  ld.param.u32 %r3, [levels];
  cvt.u64.u32 %rd2, %r3;
  st.param.b64 [a2], %rd2;
  mov.u64 %rd1, 0;
  st.param.b64 [a3], %rd1;
  st.param.b64 [a4], %rd1;
  st.param.b64 [a5], %rd1;
  call (r0), $guard_record, (a0, a1, a2, a3, a4, a5);
  exit;
}

.func $guard_check(.param .b64 address, .param .b32 site, .param .b32 bytes, .param .b32 space)
{
  .reg .pred %p<16>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<17>;
  .param .b32 a0;
  .param .b32 a1;
  .param .b64 a2;
  .param .b64 a3;
  .param .b64 a4;
  .param .b64 a5;
  .param .b32 r0;
  ld.param.u64 %rd1, [address];
  ld.param.u32 %r1, [bytes];
  cvt.u64.u32 %rd2, %r1;
  mov.u32 %r2, 5;
  sub.s64 %rd3, %rd2, 1;
  and.b64 %rd3, %rd3, %rd1;
  setp.ne.s64 %p1, %rd3, 0;
  @%p1 bra REPORT;
  ld.param.u32 %r3, [space];
  setp.eq.u32 %p2, %r3, 1;
  @%p2 bra GLOBAL;
  setp.eq.u32 %p3, %r3, 2;
  @%p3 bra SHARED;
  isspacep.local %p4, %rd1;
  @%p4 bra DONE;
  isspacep.shared %p5, %rd1;
  @!%p5 bra GLOBAL;
  cvta.to.shared.u64 %rd1, %rd1;
SHARED:
  mov.u32 %r2, 6;
  mov.u32 %r4, %aggr_smem_size;
  cvt.u64.u32 %rd4, %r4;
  setp.ge.u64 %p6, %rd1, %rd4;
  @%p6 bra REPORT;
  add.s64 %rd5, %rd1, %rd2;
  setp.gt.u64 %p7, %rd5, %rd4;
  @%p7 bra REPORT;
  ret;
GLOBAL:
  mov.u32 %r2, 4;
  ld.const.u64 %rd6, [$guard_words+32];
  setp.eq.s64 %p8, %rd6, 0;
  @%p8 bra DONE;
  add.s64 %rd15, %rd1, %rd2;
  mov.u32 %r5, 0;
TABLE:
  ld.global.u64 %rd9, [%rd6];
  setp.gt.u64 %p9, %rd9, 65535;
  @%p9 bra DONE;
  mov.u64 %rd8, 0;
SEARCH:
  setp.ge.u64 %p10, %rd8, %rd9;
  @%p10 bra FOUND;
  add.s64 %rd10, %rd8, %rd9;
  shr.u64 %rd10, %rd10, 1;
  shl.b64 %rd11, %rd10, 4;
  add.s64 %rd11, %rd11, %rd6;
  ld.global.u64 %rd12, [%rd11+16];
  setp.gt.u64 %p11, %rd12, %rd1;
  @%p11 bra LOWER;
  add.s64 %rd8, %rd10, 1;
  bra SEARCH;
LOWER:
  mov.u64 %rd9, %rd10;
  bra SEARCH;
FOUND:
  setp.eq.s64 %p12, %rd8, 0;
  @%p12 bra NEXT;
  shl.b64 %rd13, %rd8, 4;
  add.s64 %rd13, %rd13, %rd6;
  ld.global.u64 %rd14, [%rd13+8];
  setp.le.u64 %p13, %rd15, %rd14;
  @%p13 bra DONE;
NEXT:
  add.s64 %rd6, %rd6, 1048576;
  add.s32 %r5, %r5, 1;
  setp.lt.u32 %p14, %r5, 2;
  @%p14 bra TABLE;
REPORT:
  st.param.b32 [a0], %r2;
  ld.param.u32 %r6, [site];
  st.param.b32 [a1], %r6;
  ld.param.u64 %rd1, [address];
  st.param.b64 [a2], %rd1;
  st.param.b64 [a3], %rd2;
  mov.u64 %rd16, 0;
  st.param.b64 [a4], %rd16;
  st.param.b64 [a5], %rd16;
  call (r0), $guard_record, (a0, a1, a2, a3, a4, a5);
  exit;
DONE:
  ret;
}
)";

std::vector<ptx::Function> ParseRuntime() {
  std::vector<ptx::Function> functions;
  const absl::StatusOr<ptx::Module> module = ptx::Parse(kText);
  // The text is ours; a test parses it.
  if (!module.ok()) std::abort();
  for (const auto& item : module->items) functions.push_back(std::get<ptx::Function>(item));
  return functions;
}

}  // namespace

std::string_view RuntimeFunctionFor(std::string_view name) {
  if (name == "vprintf") return "$guard_vprintf";
  if (name == "__assertfail") return "$guard_assertfail";
  return {};
}

const std::vector<ptx::Function>& RuntimeFunctions() {
  static const auto* const functions = new std::vector<ptx::Function>(ParseRuntime());
  return *functions;
}

}  // namespace warpline::guard
