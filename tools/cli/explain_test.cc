#include "tools/cli/explain.h"

#include <string>
#include <vector>

#include "common/tier/folder_fixture.h"
#include "common/tier/program_identity.h"
#include "common/tier/tier_record.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

const std::string kModule =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".func helper()\n{\n.reg .b32 %r<2>;\nld.global.u32 %r1, [64];\nret;\n}\n"
    ".entry good(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
    "st.global.u32 [%rd1], 1;\nret;\n}\n"
    ".entry bad()\n{\ncall helper;\nret;\n}\n";

// A container with one entry that is not compressed.
std::string Container(uint16_t kind, const std::string& payload) {
  std::string bytes(16 + 64, '\0');
  const auto put = [&bytes](size_t at, auto value) {
    bytes.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(0, uint32_t{0xBA55ED50});
  put(4, uint16_t{1});
  put(6, uint16_t{16});
  put(8, uint64_t{64 + payload.size()});
  put(16, kind);
  put(18, uint16_t{0x0101});
  put(20, uint32_t{64});
  put(24, uint64_t{payload.size()});
  put(44, uint32_t{90});
  return bytes + payload;
}

TEST(ExplainTest, SaysWhatStandsInTheWay) {
  const ExplainedFile file = ExplainFile("a.ptx", kModule, false);
  ASSERT_EQ(file.kernels.size(), 2u);
  EXPECT_EQ(file.kernels[0].name, "bad");
  EXPECT_EQ(file.kernels[0].reason,
            "it calls helper: line 7: an absolute address: ld.global.u32 %r1, [64];");
  EXPECT_EQ(file.kernels[1].name, "good");
  EXPECT_EQ(file.kernels[1].reason, "");
}

TEST(ExplainTest, FindsModulesInAProgram) {
  const std::string program =
      "\x7f"
      "ELF..." +
      Container(1, kModule) + "..." +
      Container(2,
                "\x7f"
                "ELF .text.k") +
      "...";
  const ExplainedFile file = ExplainFile("program", program, false);
  EXPECT_EQ(file.kernels.size(), 2u);
  EXPECT_EQ(file.machine_code, 1u);
}

TEST(ExplainTest, AKernelCountsOnce) {
  const std::string worse =
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry good()\n{\ntrap2;\nret;\n}\n";
  for (const std::string& program :
       {Container(1, kModule) + Container(1, worse), Container(1, worse) + Container(1, kModule)}) {
    const ExplainedFile file = ExplainFile("program", program, false);
    ASSERT_EQ(file.kernels.size(), 2u);
    EXPECT_EQ(file.kernels[1].reason, "");
  }
}

TEST(ExplainTest, TakesWhateverThereIs) {
  for (const std::string& bytes : {std::string(), std::string("#!/bin/sh\n"),
                                   std::string("\x7f"
                                               "ELF .version"),
                                   Container(1, "no PTX"), Container(1, kModule).substr(0, 200)}) {
    const ExplainedFile file = ExplainFile("file", bytes, true);
    for (const ExplainedKernel& kernel : file.kernels) EXPECT_NE(kernel.reason, "");
  }
}

class ExplainChoiceTest : public tier::FolderFixture {
 protected:
  std::string Choice(const std::vector<std::string>& files) const {
    return ExplainChoice(files[0], {files[0]}, files, folder_ + "/cache");
  }
  const std::string machine_code_ = Container(2,
                                              "\x7f"
                                              "ELF .text.k");
};

TEST_F(ExplainChoiceTest, GuardedUnlessAFileStandsInTheWay) {
  const std::string program = Write("program", Container(1, kModule));
  EXPECT_EQ(Choice({program}),
            "--tier=auto: guarded, where the server offers that and the device takes PTX for 90");
  const std::string library = Write("libx.so", machine_code_);
  EXPECT_EQ(Choice({program, library}),
            "--tier=auto: isolated, because of " + library + ": it has machine code without PTX");
  EXPECT_EQ(Choice({Write("script.py", "print()")}),
            "--tier=auto: guarded, as long as it loads no library with machine code alone");
}

TEST_F(ExplainChoiceTest, SaysWhatStoodInTheWayBefore) {
  const std::string program = Write("program", Container(1, kModule));
  ASSERT_TRUE(tier::TierRecord(folder_ + "/cache")
                  .Add(tier::IdentifyProgram(program, {program}), "kernel k was refused"));
  EXPECT_EQ(Choice({program}), "--tier=auto: isolated, as kernel k was refused in an earlier run");
}

}  // namespace
}  // namespace warpline::cli
