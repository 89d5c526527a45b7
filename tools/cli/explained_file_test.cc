#include "tools/cli/explained_file.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "common/tier/fatbin_bytes.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using Kind = ExplainedFile::Kind;

const std::string kModule =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".func helper()\n{\n.reg .b32 %r<2>;\nld.global.u32 %r1, [64];\nret;\n}\n"
    ".entry good(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
    "st.global.u32 [%rd1], 1;\nret;\n}\n"
    ".entry bad()\n{\ncall helper;\nret;\n}\n";

const std::string kElf =
    "\x7f"
    "ELF...";

std::string PtxContainer(const std::string& text) { return tier::Container({{1, 90, text}}); }

absl::StatusOr<ExplainedFile> Explained(const std::string& bytes, FileExplainer* explainer) {
  return explainer->Explain(
      [&bytes](uint64_t offset, uint64_t count) {
        return offset > bytes.size() ? std::string() : bytes.substr(offset, count);
      },
      bytes.size());
}

ExplainedFile Explained(const std::string& bytes, bool hardened = false) {
  FileExplainer explainer(hardened);
  const auto file = Explained(bytes, &explainer);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : ExplainedFile();
}

TEST(ExplainedFileTest, SaysWhatStandsInTheWay) {
  const ExplainedFile file = Explained(kModule);
  EXPECT_EQ(file.kind, Kind::kDeviceCode);
  ASSERT_EQ(file.kernels.size(), 2u);
  EXPECT_EQ(file.kernels[0].name, "bad");
  EXPECT_EQ(file.kernels[0].reason,
            "it calls helper: line 7: an absolute address: ld.global.u32 %r1, [64];");
  EXPECT_EQ(file.kernels[1].name, "good");
  EXPECT_EQ(file.kernels[1].reason, "");
}

TEST(ExplainedFileTest, FindsModulesInAProgram) {
  const ExplainedFile file = Explained(kElf + PtxContainer(kModule) + "..." +
                                       tier::Container({tier::MachineCode(90)}) + "...");
  EXPECT_EQ(file.kind, Kind::kElf);
  EXPECT_EQ(file.kernels.size(), 2u);
  EXPECT_EQ(file.machine_code, 1u);
  EXPECT_TRUE(file.doubts.empty());
}

TEST(ExplainedFileTest, AKernelCountsOnce) {
  const std::string worse =
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry good()\n{\ntrap2;\nret;\n}\n";
  for (const std::string& program :
       {PtxContainer(kModule) + PtxContainer(worse), PtxContainer(worse) + PtxContainer(kModule)}) {
    const ExplainedFile file = Explained(program);
    ASSERT_EQ(file.kernels.size(), 2u);
    EXPECT_EQ(file.kernels[1].reason, "");
  }
}

TEST(ExplainedFileTest, TakesWhateverThereIs) {
  for (const std::string& bytes : {std::string(), kElf + " .version", PtxContainer("no PTX"),
                                   PtxContainer(kModule).substr(0, 200)}) {
    for (const ExplainedKernel& kernel : Explained(bytes, true).kernels) {
      EXPECT_NE(kernel.reason, "");
    }
  }
}

TEST(ExplainedFileTest, TellsScriptsFromOtherFiles) {
  const ExplainedFile script = Explained("#! /usr/bin/env python3 \nprint('.version')\n");
  EXPECT_EQ(script.kind, Kind::kScript);
  EXPECT_EQ(script.interpreter, "/usr/bin/env python3");
  EXPECT_EQ(Explained("#!").kind, Kind::kScript);
  EXPECT_EQ(Explained("text").kind, Kind::kOther);
  EXPECT_EQ(Explained("").kind, Kind::kOther);
}

TEST(ExplainedFileTest, ALargeFileWithoutSectionsIsRefusedUnread) {
  FileExplainer explainer(false);
  uint64_t read_bytes = 0;
  const auto file = explainer.Explain(
      [&read_bytes](uint64_t, uint64_t bytes) {
        read_bytes += bytes;
        return std::string(bytes, '\0');
      },
      uint64_t{10} << 30);
  EXPECT_EQ(file.status().message(),
            "it has 10.0 GiB and does not list its sections: 4.0 GiB are the most that is looked "
            "into");
  EXPECT_LT(read_bytes, 4096u);
}

TEST(ExplainedFileTest, AllFilesTogetherAreBounded) {
  const std::string program = kElf + std::string(1000, '.');
  FileExplainer explainer(false, {.all_files_bytes = 2500});
  EXPECT_TRUE(Explained(program, &explainer).ok());
  EXPECT_TRUE(Explained(program, &explainer).ok());
  EXPECT_EQ(Explained(program, &explainer).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ExplainedFileTest, TextsAreBoundedByWhatTheyClaim) {
  // Each claims a gigabyte that it would be decompressed to.
  const tier::FatbinEntry bomb = {1, 90, "x", 0x8000, uint64_t{1} << 30};
  const ExplainedFile file = Explained(kElf + tier::Container({bomb}) + tier::Container({bomb}));
  ASSERT_EQ(file.doubts.size(), 1u);
  EXPECT_EQ(file.doubts[0], "2 modules have more PTX than is looked into");
  FileExplainer explainer(false, {.all_texts_bytes = kModule.size() + 10});
  EXPECT_TRUE(Explained(PtxContainer(kModule), &explainer)->doubts.empty());
  EXPECT_FALSE(Explained(PtxContainer(kModule), &explainer)->doubts.empty());
}

TEST(ExplainedFileTest, ChangedFilesDoNoHarm) {
  const std::string whole = kElf + PtxContainer(kModule) + "..." +
                            tier::Container({tier::MachineCode(90), tier::Ptx(75)}) + "...";
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = whole.substr(0, whole.size() - random() % 64);
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    (void)Explained(changed);
  }
}

}  // namespace
}  // namespace warpline::cli
