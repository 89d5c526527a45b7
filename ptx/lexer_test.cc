#include "ptx/lexer.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::ptx {
namespace {

std::vector<Token> Tokens(std::string_view text) {
  Lexer lexer(text);
  std::vector<Token> tokens;
  do {
    tokens.push_back(lexer.Next());
  } while (tokens.back().kind != TokenKind::kEnd && tokens.back().kind != TokenKind::kError);
  return tokens;
}

TEST(LexerTest, OpcodesAndRegisters) {
  const auto tokens = Tokens("ld/*x*/.global.L2::128B %r1,[%rd2+-4]; // end");
  ASSERT_EQ(tokens.size(), 13u);
  EXPECT_EQ(tokens[0].text, "ld");
  EXPECT_EQ(tokens[1].kind, TokenKind::kDotName);
  EXPECT_EQ(tokens[1].text, "global");
  EXPECT_EQ(tokens[2].text, "L2::128B");
  EXPECT_EQ(tokens[3].text, "%r1");
  EXPECT_EQ(tokens[7].punct, '+');
  EXPECT_EQ(tokens[8].punct, '-');
  EXPECT_EQ(tokens[9].bits, 4u);
  EXPECT_EQ(tokens[12].kind, TokenKind::kEnd);
}

TEST(LexerTest, Integers) {
  const auto tokens = Tokens("0 17 0x1F 0b101 020 5U 18446744073709551615");
  const uint64_t expected[] = {0, 17, 31, 5, 16, 5, 18446744073709551615u};
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(tokens[i].bits, expected[i]) << i;
  EXPECT_FALSE(tokens[1].is_unsigned);
  EXPECT_TRUE(tokens[5].is_unsigned);
  EXPECT_TRUE(tokens[6].is_unsigned);
}

TEST(LexerTest, Floats) {
  const auto tokens = Tokens("0f3F800000 0d3FF0000000000000 1.5 2e3 9.0");
  EXPECT_EQ(tokens[0].kind, TokenKind::kFloat32);
  EXPECT_EQ(tokens[0].bits, 0x3f800000u);
  EXPECT_EQ(tokens[1].kind, TokenKind::kFloat64);
  EXPECT_EQ(tokens[1].bits, 0x3ff0000000000000u);
  EXPECT_EQ(tokens[2].bits, 0x3ff8000000000000u);
  EXPECT_EQ(tokens[3].bits, 0x409f400000000000u);
  EXPECT_EQ(tokens[4].text, "9.0");
}

TEST(LexerTest, PercentIsAlsoAnOperator) {
  const auto tokens = Tokens("7%4 %tid.x a<<2");
  EXPECT_EQ(tokens[1].punct, '%');
  EXPECT_EQ(tokens[3].text, "%tid");
  EXPECT_EQ(tokens[4].text, "x");
  EXPECT_EQ(tokens[6].punct, kShiftLeft);
}

TEST(LexerTest, CountsLines) {
  const auto tokens = Tokens("a\n/* two\nlines */ b\n// c\nd");
  EXPECT_EQ(tokens[0].line, 1u);
  EXPECT_EQ(tokens[1].line, 3u);
  EXPECT_EQ(tokens[2].line, 5u);
}

TEST(LexerTest, ANulEndsTheText) {
  const auto tokens = Tokens(std::string_view("ret;\0garbage \x80", 14));
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[2].kind, TokenKind::kEnd);
}

TEST(LexerTest, WhatIsNoTokenIsAnError) {
  for (const char* text : {"\"open", "/* open", "#", "\x80", "0x", "0b2", "08", "0f3F80000",
                           "0f3F8000001", "99999999999999999999", ". ", "12abc", "1.5x"}) {
    const auto tokens = Tokens(text);
    EXPECT_EQ(tokens.back().kind, TokenKind::kError) << text;
  }
}

}  // namespace
}  // namespace warpline::ptx
