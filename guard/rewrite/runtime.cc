#include "guard/rewrite/runtime.h"

#include <cstdlib>
#include <variant>

#include "ptx/parser.h"

namespace warpline::guard {
namespace {

// guard/records.h has the form of a record.
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
