#include "client_stub/private_tables/compiled_ptx.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace warpline {
namespace {

const std::string kPtx =
    "//\n.version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";

// Begins as an ELF file of a GPU's code does; nothing looks further.
std::string Code(char last) {
  std::string code("\177ELF\2\1\1\101", 8);
  code.resize(64);
  code[18] = static_cast<char>(190);  // EM_CUDA
  code.back() = last;
  return code;
}

void Note(CompiledPtx* compiled, const std::string& source, const std::string& result) {
  CompiledPtx::Source described;
  ASSERT_TRUE(compiled->Describe(source, &described));
  if (!CompiledPtx::IsCode(result)) return compiled->NotePtx(described, result);
  EXPECT_EQ(compiled->NoteCode(described, result), described.ptx != nullptr);
}

std::string Found(const CompiledPtx& compiled, const std::string& code) {
  const auto text = compiled.Find(code);
  return text == nullptr ? "" : *text;
}

TEST(CompiledPtxTest, CodeHasThePtxThatItWasCompiledFrom) {
  CompiledPtx compiled;
  EXPECT_EQ(Found(compiled, Code(1)), "");
  Note(&compiled, kPtx, Code(1));
  EXPECT_EQ(Found(compiled, Code(1)), kPtx);
  EXPECT_EQ(Found(compiled, Code(2)), "");
}

TEST(CompiledPtxTest, CodeHasThePtxThatWasCompiledFromTheSameProgram) {
  CompiledPtx compiled;
  Note(&compiled, "a program", kPtx);
  Note(&compiled, "a program", Code(1));
  Note(&compiled, "another program", Code(2));
  EXPECT_EQ(Found(compiled, Code(1)), kPtx);
  EXPECT_EQ(Found(compiled, Code(2)), "");
  // Compiled again with other options: what code became of the former text keeps it.
  Note(&compiled, "a program", kPtx + "// Fast.\n");
  Note(&compiled, "a program", Code(3));
  EXPECT_EQ(Found(compiled, Code(1)), kPtx);
  EXPECT_EQ(Found(compiled, Code(3)), kPtx + "// Fast.\n");
}

TEST(CompiledPtxTest, ThreadsThatCompileOneProgramDifferentlyDoNotMeet) {
  CompiledPtx compiled;
  Note(&compiled, "a program", kPtx);
  std::thread([&] {
    Note(&compiled, "a program", Code(1));
    EXPECT_EQ(Found(compiled, Code(1)), "");
    Note(&compiled, "a program", kPtx + "// Fast.\n");
  }).join();
  Note(&compiled, "a program", Code(2));
  EXPECT_EQ(Found(compiled, Code(2)), kPtx);
}

TEST(CompiledPtxTest, AnythingElseIsIgnored) {
  CompiledPtx compiled;
  Note(&compiled, "", "");
  Note(&compiled, "a program", "neither");
  Note(&compiled, "a program", Code(1));
  Note(&compiled, Code(1), Code(2));
  Note(&compiled, "// A program with a comment.", Code(1));
  EXPECT_EQ(Found(compiled, Code(1)), "");
  EXPECT_EQ(Found(compiled, Code(2)), "");
  Note(&compiled, "a program", kPtx);
  // The program itself is no code.
  EXPECT_EQ(Found(compiled, "a program"), "");
  EXPECT_EQ(Found(compiled, kPtx), "");
}

TEST(CompiledPtxTest, ATextThatIsNotedAgainIsTheNewest) {
  CompiledPtx compiled(2000);
  const std::string long_ptx = kPtx + std::string(500, '\n');
  for (const char i : {1, 2, 1, 3}) Note(&compiled, long_ptx, Code(i));
  EXPECT_EQ(Found(compiled, Code(1)), long_ptx);
  EXPECT_EQ(Found(compiled, Code(2)), "");
  EXPECT_EQ(Found(compiled, Code(3)), long_ptx);
}

TEST(CompiledPtxTest, TheOldestTextsAreForgotten) {
  CompiledPtx compiled(2000);
  std::string long_ptx = kPtx + std::string(500, '\n');
  for (char i = 1; i <= 4; ++i) Note(&compiled, long_ptx, Code(i));
  EXPECT_EQ(Found(compiled, Code(1)), "");
  EXPECT_EQ(Found(compiled, Code(2)), "");
  EXPECT_EQ(Found(compiled, Code(3)), long_ptx);
  EXPECT_EQ(Found(compiled, Code(4)), long_ptx);
  // One that is larger than all may be leaves nothing behind.
  Note(&compiled, kPtx + std::string(3000, '\n'), Code(5));
  EXPECT_EQ(Found(compiled, Code(5)), "");
  Note(&compiled, kPtx, Code(6));
  EXPECT_EQ(Found(compiled, Code(6)), kPtx);
}

}  // namespace
}  // namespace warpline
