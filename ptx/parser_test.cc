#include "ptx/parser.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ptx/printer.h"

namespace warpline::ptx {
namespace {

constexpr char kHeader[] = ".version 9.0\n.target sm_90\n.address_size 64\n";

// Parses the module of `items`, and checks that it survives printing.
Module Good(const std::string& items) {
  absl::StatusOr<Module> module = Parse(kHeader + items);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << items;
  if (!module.ok()) return Module();
  const std::string printed = Print(*module);
  absl::StatusOr<Module> again = Parse(printed);
  EXPECT_TRUE(again.ok()) << again.status() << "\n" << printed;
  if (again.ok()) {
    EXPECT_TRUE(*again == *module) << printed;
    EXPECT_EQ(Print(*again), printed);
  }
  return *module;
}

std::string Error(const std::string& items, const ParseLimits& limits = {}) {
  const absl::StatusOr<Module> module = Parse(kHeader + items, limits);
  EXPECT_FALSE(module.ok()) << items;
  if (module.ok()) return "";
  EXPECT_EQ(module.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(module.status().message());
}

// The instructions of one body.
std::vector<Instruction> Body(const std::string& body) {
  const Module module = Good(absl::StrCat(".entry k() {\n", body, "\n}"));
  std::vector<Instruction> instructions;
  if (module.items.empty()) return instructions;
  for (const Statement& statement : std::get<Function>(module.items[0]).body) {
    if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
      instructions.push_back(*instruction);
    }
  }
  return instructions;
}

// Parses an instruction with these operands, and prints it again.
std::string Canonical(const std::string& operands) {
  const auto instructions = Body(absl::StrCat("op ", operands, ";"));
  return instructions.empty() ? "" : Print(instructions[0]);
}

template <typename T>
T Only(const Module& module) {
  EXPECT_EQ(module.items.size(), 1u);
  return std::get<T>(module.items.at(0));
}

TEST(ParserTest, Headers) {
  const Module module = *Parse(".version 7.8\n.target sm_80, debug\n.address_size 64");
  EXPECT_EQ(module.version_major, 7);
  EXPECT_EQ(module.version_minor, 8);
  EXPECT_EQ(module.targets, (std::vector<std::string>{"sm_80", "debug"}));
  EXPECT_EQ(module.address_size, 64);
  EXPECT_FALSE(Parse("").ok());
  EXPECT_FALSE(Parse(".version 9.0").ok());
  EXPECT_FALSE(Parse(".target sm_90").ok());
}

TEST(ParserTest, Instructions) {
  const auto in = Body("@!%p1 ld.global.nc.L2::128B.v2.f32 {%f1, _}, [%rd1+-8];");
  ASSERT_EQ(in.size(), 1u);
  EXPECT_EQ(in[0].guard, "%p1");
  EXPECT_TRUE(in[0].guard_negated);
  EXPECT_EQ(in[0].opcode, "ld");
  EXPECT_EQ(in[0].modifiers, (std::vector<std::string>{"global", "nc", "L2::128B", "v2", "f32"}));
  ASSERT_EQ(in[0].operands.size(), 2u);
  EXPECT_EQ(in[0].operands[0].kind, Operand::Kind::kVector);
  EXPECT_EQ(in[0].operands[1].kind, Operand::Kind::kAddress);
  EXPECT_EQ(in[0].operands[1].name, "%rd1");
  EXPECT_EQ(in[0].operands[1].offset, -8);
}

TEST(ParserTest, OperandForms) {
  EXPECT_EQ(Canonical("%r1, %tid.x, %v.w"), "op %r1, %tid.x, %v.w;");
  EXPECT_EQ(Canonical("%p1|%p2, !%p3"), "op %p1|%p2, !%p3;");
  EXPECT_EQ(Canonical("[4096], [sym], [sym+4], [sym-4]"), "op [4096], [sym], [sym+4], [sym+-4];");
  EXPECT_EQ(Canonical("sym+8, sym[3]"), "op sym+8, sym[3];");
  EXPECT_EQ(Canonical("0f3f800000, 1.0, -1.5, 0d0000000000000001"),
            "op 0f3F800000, 0d3FF0000000000000, 0dBFF8000000000000, 0d0000000000000001;");
  EXPECT_EQ(Canonical("[tex, {%f1, %f2}], [%rd1, {%r1}, x]"),
            "op [tex, {%f1, %f2}], [%rd1, {%r1}, x];");
  EXPECT_EQ(Canonical("{1, {2, 3}}"), "op {1, {2, 3}};");
}

TEST(ParserTest, ConstantExpressionsFold) {
  EXPECT_EQ(Canonical("(4*8)+1, 020, 0x10|3, ~0, !5, -7/2, 7%4"), "op 33, 16, 19, -1, 0, -3, 3;");
  EXPECT_EQ(Canonical("1<<3>>1, 5>4&&2!=3, 1?2:3, WARP_SZ-1"), "op 4, 1, 2, 31;");
  EXPECT_EQ(Canonical("(.u64)-1>>63, -1>>63, 0xffffffffffffffff/2"),
            "op 1, -1, 9223372036854775807;");
  EXPECT_EQ(Canonical("(.s64)-9223372036854775808/-1"), "op -9223372036854775808;");
  EXPECT_NE(Error(".entry k() { op 1/0; }").find("division by zero"), std::string::npos);
}

TEST(ParserTest, Calls) {
  const auto in =
      Body("call.uni (retval0), foo, (p0, p1);\ncall foo;\ncall (r), %rd1, (a), proto;");
  ASSERT_EQ(in.size(), 3u);
  EXPECT_EQ(in[0].operands[0].kind, Operand::Kind::kList);
  EXPECT_EQ(in[0].operands[2].elements.size(), 2u);
  EXPECT_EQ(in[1].operands[0].name, "foo");
  EXPECT_EQ(in[2].operands[3].name, "proto");
}

TEST(ParserTest, StatementsBesideInstructions) {
  const Module module = Good(R"(
.entry k() {
  .reg .b32 %r<10>, x, y;
  .reg .v4 .f32 v;
  .local .align 16 .b8 depot[64];
  .shared .b32 s[2][3];
  .loc 1 2 3
  .loc 1 2 3, function_name $L__info_string0+4, inlined_at 1 7 8
  .pragma "nounroll";
TOP: { .reg .pred %p<2>; { bra TOP; } }
  ts: .branchtargets A, B;
  cs: .calltargets f, g;
  pr: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn;
A: B: ret;
})");
  const Function k = Only<Function>(module);
  EXPECT_TRUE(k.is_entry);
  ASSERT_GT(k.body.size(), 6u);
  EXPECT_EQ(std::get<Variable>(k.body[0].node).register_count, 10u);
  EXPECT_EQ(std::get<Variable>(k.body[3].node).vector_width, 4u);
  EXPECT_EQ(std::get<Variable>(k.body[5].node).element_count, 6u);
}

TEST(ParserTest, FunctionsAndTheirDirectives) {
  const Module module = Good(R"(
.visible .entry k(.param .u64 .ptr .global .align 8 a, .param .align 4 .b8 s[12])
.maxntid 256, 1, 1 .minnctapersm 2
.pragma "x";
{ ret; }
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.weak .func (.reg .b32 r) g(.reg .f32 x, .reg .pred p) .noreturn ;
.func h { ret; }
.alias i, h;
)");
  ASSERT_EQ(module.items.size(), 5u);
  const auto& k = std::get<Function>(module.items[0]);
  EXPECT_EQ(k.linkage, "visible");
  EXPECT_TRUE(k.params[0].is_pointer);
  EXPECT_EQ(k.params[0].pointer_space, "global");
  EXPECT_EQ(k.params[1].element_count, 12u);
  EXPECT_EQ(k.directives[0].values, (std::vector<uint64_t>{256, 1, 1}));
  EXPECT_FALSE(std::get<Function>(module.items[1]).has_body);
  EXPECT_EQ(std::get<Alias>(module.items[4]).target, "h");
}

TEST(ParserTest, Variables) {
  const Variable v = Only<Variable>(Good(".visible .global .align 8 .u32 x[4] = {1, -2, 0x3};"));
  EXPECT_EQ(v.alignment, 8u);
  EXPECT_EQ(v.element_count, 4u);
  ASSERT_EQ(v.init.size(), 3u);
  EXPECT_EQ(v.init[1].bits, static_cast<uint64_t>(-2));
  EXPECT_EQ(Only<Variable>(Good(".const .f32 c[] = {1.0, 0f40000000};")).element_count, 2u);
  EXPECT_EQ(Only<Variable>(Good(".extern .shared .align 16 .b8 d[];")).element_count, 0u);
  EXPECT_TRUE(Only<Variable>(Good(".global .attribute(.managed) .s32 m;")).managed);
  EXPECT_TRUE(Only<Variable>(Good(".global .attribute(.unified(1, 2)) .s32 m;")).name == "m");
  Good(".global .texref t;\n.global .samplerref s;\n.tex .u64 old;");
}

TEST(ParserTest, InitialisersOfRowsArePadded) {
  const Variable v = Only<Variable>(Good(".global .u8 a[3][2] = {{1}, {2, 3}};"));
  ASSERT_EQ(v.init.size(), 4u);
  EXPECT_EQ(v.init[0].bits, 1u);
  EXPECT_EQ(v.init[1].bits, 0u);
  EXPECT_EQ(v.init[2].bits, 2u);
  EXPECT_EQ(Only<Variable>(Good(".global .v2 .f32 a[2] = {{1.0}, {2.0, 3.0}};")).init.size(), 4u);
}

TEST(ParserTest, InitialisersWithSymbols) {
  const Module module = Good(R"(
.global .u64 p[3] = {x, generic(x)+4, x+-8};
.global .b8 q[4] = {0xFF(x), 0xFF00(generic(x)+12), 3};
)");
  const auto& p = std::get<Variable>(module.items[0]);
  EXPECT_TRUE(p.init_symbols[1].generic);
  EXPECT_EQ(p.init[1].bits, 4u);
  EXPECT_EQ(static_cast<int64_t>(p.init[2].bits), -8);
  const auto& q = std::get<Variable>(module.items[1]);
  EXPECT_EQ(q.init_symbols[1].mask, 0xff00u);
}

TEST(ParserTest, DebugInformationIsDropped) {
  const Module module = Good(R"(
.file 1 "a.cu", 5, 6
.section .debug_str
{
$L__info_string0:
.b8 116,0
.b32 .debug_abbrev+4
}
.func f() { ret; })");
  EXPECT_EQ(module.items.size(), 1u);
}

TEST(ParserTest, ErrorsNameTheirLine) {
  EXPECT_EQ(Error(".entry k() {\n  ret;\n  add.u32 %r1, %r2\n}"), "line 7: expected ';'");
  EXPECT_EQ(Error(".entry k() {\n \"open\n}"), "line 5: string without end");
  EXPECT_EQ(Error(".nonsense"), "line 4: unknown directive '.nonsense'");
}

TEST(ParserTest, MalformedTextIsRefused) {
  for (const char* text : {".entry k() {",
                           ".entry k() { } }",
                           ".entry k() { ld.global.u32 %r1, [%r2+%r3]; }",
                           ".entry k() { add %r1 %r2; }",
                           ".entry k() { @ ret; }",
                           ".entry (x) { }",
                           ".entry k( { }",
                           ".global .u32 x = ;",
                           ".global .u32 x[2] = {1, 2, 3};",
                           ".global x;",
                           ".global .u32 .u32 x;",
                           ".global .align 3 .u32 x;",
                           ".global .u32 x[2][];",
                           ".reg .b32 %r<2>;",
                           ".entry k() { .reg .b32 %r<0>; }",
                           ".entry k() { .global .b32 x<4>; }",
                           ".section .debug_info { .b8 1",
                           ".entry k() { op [a, ; }",
                           ".entry k() { op (1; }",
                           ".global .u8 a[1099511627776][1099511627776];"}) {
    EXPECT_NE(Error(text), "") << text;
  }
}

TEST(ParserTest, HostileSizesHitLimits) {
  const auto repeat = [](const std::string& text, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
  };
  Error(".entry k() {" + repeat("{", 1000) + repeat("}", 1000) + "}");
  Error(".entry k() { op " + repeat("(", 100000) + "1" + repeat(")", 100000) + "; }");
  Error(".entry k() { op " + repeat("-", 100000) + "1; }");
  Error(".entry k() { op " + repeat("1?", 100000) + "1; }");
  Error(".entry k() { op " + repeat("{", 1000) + "1; }");
  Error(".entry k() { op " + repeat("a|", 1000) + "a; }");
  Error(".entry k() { op" + repeat(".x", 1000) + "; }");
  Error(".entry k() { .reg .b32 %r<4294967295>; }");
  ParseLimits limits;
  limits.init_elements = 1000;
  Error(".global .u8 a[2][1000000000] = {{1}, {2}};", limits);
  limits.statements = 10;
  EXPECT_EQ(Error(".entry k() {" + repeat("ret;", 11) + "}", limits),
            "line 4: too many statements");
  limits.text_bytes = 10;
  EXPECT_NE(Error("", limits), "");
}

}  // namespace
}  // namespace warpline::ptx
