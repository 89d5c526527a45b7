#include "tools/ptxas/stand_in.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::tools {
namespace {

constexpr char kPtx[] = ".version 8.7\n.target sm_80\n.address_size 64\n.entry f()\n{\nret;\n}\n";

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string WriteFile(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(StandInTest, UnderstandsHowTritonCallsIt) {
  const auto call = ParsePtxasCall({"-lineinfo", "--fmad=false", "-v", "--opt-level", "0",
                                    "--gpu-name=sm_80", "in.ptx", "-o", "out.cubin"});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->version);
  EXPECT_EQ(call->input, "in.ptx");
  EXPECT_EQ(call->output, "out.cubin");
}

TEST(StandInTest, ValuesComeInTheSameWordOrTheNext) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--output-file=out", "-arch", "sm_90", "in"},
        {"-arch=sm_90", "in", "--output-file", "out"},
        {"-m", "64", "-o=out", "in", "-e", "f"}}) {
    const auto call = ParsePtxasCall(words);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->input, "in");
    EXPECT_EQ(call->output, "out");
  }
}

TEST(StandInTest, TheVersionIsInTheFormThatCompilersLookFor) {
  for (const std::string word : {"--version", "-V"}) {
    const auto call = ParsePtxasCall({word});
    ASSERT_TRUE(call.ok());
    EXPECT_TRUE(call->version);
  }
  EXPECT_NE(std::string(kVersionText).find("release 12.8, V12.8.0"), std::string::npos);
}

TEST(StandInTest, CallsWithoutOneInputAreRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"-v"}, {"a.ptx", "b.ptx"}, {"a.ptx", "-o"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParsePtxasCall(words).status()));
  }
}

TEST(StandInTest, ThePtxComesWithAZeroAtItsEnd) {
  for (const std::string& input : {std::string(kPtx), std::string(kPtx, sizeof(kPtx))}) {
    const absl::Status status =
        HandPtxOver({.input = WriteFile("in.ptx", input), .output = Path("out.cubin")});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ReadFile(Path("out.cubin")), std::string(kPtx, sizeof(kPtx)));
  }
}

TEST(StandInTest, OtherFilesAreRefusedAndNothingIsWritten) {
  for (const std::string& bytes :
       {std::string(), std::string("\177ELF\2\1\1\0\0.version .target", 24),
        std::string(".version 8.7\n")}) {
    const absl::Status status =
        HandPtxOver({.input = WriteFile("other", bytes), .output = Path("nothing")});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ReadFile(Path("nothing")), "");
  }
  EXPECT_FALSE(HandPtxOver({.input = Path("missing"), .output = Path("nothing")}).ok());
  EXPECT_FALSE(HandPtxOver({.input = WriteFile("in.ptx", kPtx), .output = "/no/folder/out"}).ok());
}

}  // namespace
}  // namespace warpline::tools
