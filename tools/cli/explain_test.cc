#include "tools/cli/explain.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/tier/fatbin_bytes.h"
#include "common/tier/folder_fixture.h"
#include "common/tier/program_identity.h"
#include "common/tier/tier_record.h"
#include "gtest/gtest.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {
namespace {

const std::string kModule =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".func helper()\n{\n.reg .b32 %r<2>;\nld.global.u32 %r1, [64];\nret;\n}\n"
    ".entry good(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
    "st.global.u32 [%rd1], 1;\nret;\n}\n"
    ".entry bad()\n{\ncall helper;\nret;\n}\n";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class ExplainTest : public tier::FolderFixture {
 protected:
  void SetUp() override {
    FolderFixture::SetUp();
    setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
  }
  struct Done {
    int code = -1;
    std::string out, err;
  };
  static Done Run(std::vector<std::string> files) {
    files.insert(files.begin(), "explain");
    const auto line = ParseCommandLine(files);
    EXPECT_TRUE(line.ok()) << line.status();
    Done done;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    if (line.ok()) done.code = Explain(*line);
    done.out = testing::internal::GetCapturedStdout();
    done.err = testing::internal::GetCapturedStderr();
    return done;
  }
  // What is said of a file that cannot be explained.
  static std::string ErrorOf(const std::string& path) {
    const Done done = Run({path});
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(done.out, "");
    return done.err;
  }
};

TEST_F(ExplainTest, RunsNoAuditorOfAProgram) {
  const std::string left = folder_ + "/left";
  setenv("WARPLINE_AUDITOR_FILE", left.c_str(), 1);
  for (const std::string program :
       {"tools/cli/testing/audited", "tools/cli/testing/dependency_audited"}) {
    const Done done = Run({program});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(access(left.c_str(), F_OK), 0) << program;
    // The loader does run it, even to list libraries. An auditor cannot load a sanitizer's runtime.
    if (kSanitized) continue;
    const std::string list = "/lib64/ld-linux-x86-64.so.2 --list " + program + " >/dev/null";
    EXPECT_EQ(system(list.c_str()), 0);
    EXPECT_EQ(unlink(left.c_str()), 0) << program;
  }
}

TEST_F(ExplainTest, LooksIntoTheProgramAndItsLibraries) {
  const Done done = Run({"/proc/self/exe", Write("module.ptx", kModule)});
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.out.find("module.ptx: 1 of 2 kernels can be guarded\n"), std::string::npos);
  EXPECT_NE(done.out.find("\nguarded: 1 of 2 kernels\n--tier=auto: "), std::string::npos);
}

TEST_F(ExplainTest, NamesWhatIsNoPlainFile) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf(pipe), "warpline: cannot read " + pipe + ": it is a pipe\n");
  EXPECT_EQ(ErrorOf("/dev/zero"), "warpline: cannot read /dev/zero: it is a device\n");
  EXPECT_EQ(ErrorOf(folder_), "warpline: cannot read " + folder_ + ": it is a folder\n");
}

TEST_F(ExplainTest, NamesWhatIsTooLarge) {
  const std::string path = Write("large", "");
  ASSERT_EQ(truncate(path.c_str(), off_t{10} << 30), 0);
  EXPECT_EQ(ErrorOf(path), "warpline: cannot explain " + path +
                               ": it has 10.0 GiB and does not list its sections: 4.0 GiB are the "
                               "most that is looked into\n");
}

TEST_F(ExplainTest, NamesWhatIsNoProgram) {
  const std::string text = Write("text", "some text");
  EXPECT_EQ(ErrorOf(text), "warpline: cannot explain " + text +
                               ": it is neither a program, nor a library, nor a fatbin, nor PTX\n");
  const std::string script = Write("script", "#!/usr/bin/env python3\n");
  EXPECT_EQ(ErrorOf(script), "warpline: cannot explain " + script +
                                 ": it is a script for /usr/bin/env python3: explain that "
                                 "program, with the script behind it\n");
  // Behind a program, both are data.
  EXPECT_EQ(Run({"/proc/self/exe", script, text}).code, 0);
}

class ExplainChoiceTest : public tier::FolderFixture {
 protected:
  std::string Choice(const std::vector<std::string>& files) const {
    return ExplainChoice(files[0], {files[0]}, files, {}, folder_ + "/cache");
  }
  const std::string machine_code_ = tier::Container({tier::MachineCode(90)});
  const std::string ptx_ = tier::Container({{1, 90, kModule}});
};

TEST_F(ExplainChoiceTest, GuardedUnlessAFileStandsInTheWay) {
  const std::string program = Write("program", ptx_);
  EXPECT_EQ(Choice({program}),
            "--tier=auto: guarded, where the server offers that and the device takes PTX for 90");
  const std::string library = Write("libx.so", machine_code_);
  EXPECT_EQ(Choice({program, library}),
            "--tier=auto: isolated, because of " + library + ": it has machine code without PTX");
  EXPECT_EQ(Choice({Write("script.py", "print()")}),
            "--tier=auto: guarded, as long as it loads no library with machine code alone");
}

TEST_F(ExplainChoiceTest, ALibraryThatTheServerExecutesNeedsTheGuardedTierByName) {
  const std::string program = Write("program", ptx_);
  EXPECT_EQ(ExplainChoice(program, {program}, {program}, {"libcublas.so.13"}, folder_ + "/cache"),
            "--tier=auto: isolated, because of libcublas.so.13: only --tier=guarded has the server "
            "execute its functions");
}

TEST_F(ExplainChoiceTest, SaysWhatStoodInTheWayBefore) {
  const std::string program = Write("program", ptx_);
  ASSERT_TRUE(tier::TierRecord(folder_ + "/cache")
                  .Add(tier::IdentifyProgram(program, {program}), "kernel k was refused"));
  EXPECT_EQ(Choice({program}), "--tier=auto: isolated, as kernel k was refused in an earlier run");
}

}  // namespace
}  // namespace warpline::cli
