#include "common/log/log.h"

#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(LogTest, TextCannotControlTheTerminalOrForgeALine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  SetLogDescriptor(ends[1]);
  LogInfo("program=", std::string("a\nb \x1b[2J c \xc2\x9b d \xc3\x9b"));
  SetLogDescriptor(STDERR_FILENO);
  close(ends[1]);
  char line[512];
  const ssize_t bytes = read(ends[0], line, sizeof(line));
  close(ends[0]);
  ASSERT_GT(bytes, 0);
  const std::string text(line, static_cast<size_t>(bytes));
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
  // A letter that has the same second byte as a control character.
  EXPECT_NE(text.find("\xc3\x9b"), std::string::npos);
}

}  // namespace
}  // namespace warpline
