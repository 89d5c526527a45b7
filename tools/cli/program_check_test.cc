#include "tools/cli/program_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

class ProgramCheckTest : public testing::Test {
 protected:
  std::string File(const std::string& text, mode_t mode) {
    const std::string path = testing::TempDir() + "/program";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    chmod(path.c_str(), mode);
    return path;
  }
};

TEST_F(ProgramCheckTest, FindsProgramsAsAShellDoes) {
  EXPECT_TRUE(FindProgram("sh").ok());
  EXPECT_TRUE(FindProgram("/bin/sh").ok());
  EXPECT_EQ(FindProgram("no-such-program-here").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindProgram("/no/such/program").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindProgram(File("text", 0600)).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(FindProgram("").ok());
}

TEST_F(ProgramCheckTest, OrdinaryProgramsAndScriptsAreFine) {
  EXPECT_EQ(WhatIsWrongWith("/proc/self/exe"), "");
  EXPECT_EQ(WhatIsWrongWith(File("#!/bin/sh\nexit 0\n", 0755)), "");
  EXPECT_EQ(WhatIsWrongWith("/no/such/program"), "");
}

TEST_F(ProgramCheckTest, StaticAndForeignProgramsAreNamed) {
  // A header of a program without segments, and with a table of them that lies beyond the end.
  std::string header("\177ELF\2\1\1", 7);
  header.resize(64, '\0');
  header[16] = 2;
  header[18] = 62;
  EXPECT_NE(WhatIsWrongWith(File(header, 0755)).find("statically"), std::string::npos);
  header[32] = '\377';
  header[56] = '\377';
  header[57] = '\377';
  EXPECT_NE(WhatIsWrongWith(File(header, 0755)).find("statically"), std::string::npos);
  header[4] = 1;
  EXPECT_NE(WhatIsWrongWith(File(header, 0755)).find("64-bit"), std::string::npos);
}

}  // namespace
}  // namespace warpline::cli
