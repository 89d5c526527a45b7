#include "common/tier/file_survey.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/tier/fatbin_bytes.h"
#include "common/tier/folder_fixture.h"
#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

class FileSurveyTest : public FolderFixture {
 protected:
  // Files count as written long ago.
  FileSurvey::Options Options() const {
    return {.cache_folder = folder_ + "/cache",
            .wall_clock = [] { return absl::Now() + absl::Hours(1); }};
  }
};

TEST_F(FileSurveyTest, LooksIntoFiles) {
  FileSurvey survey(Options());
  EXPECT_EQ(survey.Look(Write("a", Container({Ptx(75)}))).targets, std::set<std::string>{"75"});
  EXPECT_NE(survey.Look(Write("b", Container({MachineCode(75)}))).obstacle, "");
  EXPECT_FALSE(survey.Look(Write("c", "#!/bin/sh\n")).any());
  EXPECT_FALSE(survey.Look(folder_ + "/none").any());
  EXPECT_FALSE(survey.Look(folder_).any());
  EXPECT_FALSE(survey.Look("").any());
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(survey.Look(fifo).any());
}

TEST_F(FileSurveyTest, LibrariesOfMachineCodeAreKnownByName) {
  for (const char* name :
       {"libcublas.so.12", "libcublasLt.so.13.1.0", "libcudnn.so.9", "libcudnn_ops.so.9",
        "libnppc.so.13", "libtorch_cuda.so", "libcublas-5fd5a0ae.so.11", "libnccl.so.2"}) {
    EXPECT_TRUE(IsMachineCodeLibrary(name)) << name;
  }
  for (const char* name : {"libcudart.so.12", "libcublasfoo.so", "libcuda.so.1", "libc.so.6", "",
                           "libnvrtc.so.13", "libcurand.so.10"}) {
    EXPECT_FALSE(IsMachineCodeLibrary(name)) << name;
  }
  FileSurvey survey(Options());
  EXPECT_NE(survey.Look("/nowhere/libcublas.so.12").obstacle, "");
}

TEST_F(FileSurveyTest, WhatWasFoundIsNotReadAgain) {
  const std::string a = Write("a", Container({Ptx(75)}));
  const std::string b = Write("b", Container({MachineCode(75)}));
  FileSurvey first(Options());
  const DeviceCode code_a = first.Look(a), code_b = first.Look(b);
  EXPECT_GT(first.read_bytes(), 0u);
  first.Save();
  FileSurvey second(Options());
  EXPECT_EQ(second.Look(a), code_a);
  EXPECT_EQ(second.Look(b), code_b);
  EXPECT_EQ(second.read_bytes(), 0u);
}

TEST_F(FileSurveyTest, AChangedFileIsReadAgain) {
  const std::string path = Write("a", Container({Ptx(75)}));
  FileSurvey first(Options());
  first.Look(path);
  first.Save();
  Write("a", Container({Ptx(75)}) + Container({MachineCode(75)}));
  EXPECT_NE(FileSurvey(Options()).Look(path).obstacle, "");
}

TEST_F(FileSurveyTest, AFileThatWasJustWrittenIsNotKept) {
  FileSurvey::Options options = Options();
  options.wall_clock = absl::Now;
  const std::string path = Write("a", Container({Ptx(75)}));
  FileSurvey first(options);
  first.Look(path);
  first.Save();
  FileSurvey second(options);
  second.Look(path);
  EXPECT_GT(second.read_bytes(), 0u);
}

TEST_F(FileSurveyTest, ACacheOfGarbageIsAsGoodAsNone) {
  const std::string path = Write("a", Container({Ptx(75)}));
  FileSurvey first(Options());
  first.Look(path);
  first.Save();
  // The same keys, with values that say nothing.
  const KeyedLines cache({.folder = folder_ + "/cache", .name = "device-code-1"});
  auto lines = cache.Read();
  ASSERT_EQ(lines.size(), 1u);
  lines.begin()->second = "90z|x";
  ASSERT_TRUE(cache.Put(lines));
  EXPECT_EQ(FileSurvey(Options()).Look(path).targets, std::set<std::string>{"75"});
}

TEST_F(FileSurveyTest, OfALargeFileSoManyBytesAreRead) {
  FileSurvey::Options options = Options();
  options.small_file_bytes = 100;
  options.most_file_bytes = 1000;
  // What lists no sections is read from its start.
  FileSurvey survey(options);
  EXPECT_EQ(survey.Look(Write("a", Container({Ptx(75)}) + std::string(400, 'x'))).obstacle, "");
  EXPECT_EQ(survey.Look(Write("b", Container({MachineCode(75)}) + std::string(5000, 'x'))).obstacle,
            "it has machine code without PTX");
  const uint64_t before = survey.read_bytes();
  EXPECT_EQ(survey.Look(Write("c", std::string(100000, 'x'))).obstacle,
            "it has more device code than is looked into");
  EXPECT_LE(survey.read_bytes() - before, 1100u);
}

TEST_F(FileSurveyTest, OfAHugeLibraryItsDeviceCodeIsRead) {
  FileSurvey::Options options = Options();
  options.small_file_bytes = 100;
  // A program that lists its sections and has no device code: this one.
  FileSurvey survey(options);
  EXPECT_FALSE(survey.Look("/proc/self/exe").any());
  EXPECT_LT(survey.read_bytes(), uint64_t{1} << 20);
  EXPECT_GT(survey.read_bytes(), 0u);
}

TEST_F(FileSurveyTest, AfterSoManyBytesOrSoLongFilesAreObstacles) {
  const std::string path = Write("a", Container({Ptx(75)}));
  const std::string other = Write("b", Container({Ptx(75)}));
  FileSurvey::Options options = Options();
  options.most_bytes = 10;
  FileSurvey survey(options);
  EXPECT_EQ(survey.Look(path).obstacle, "");
  EXPECT_NE(survey.Look(other).obstacle, "");
  options = Options();
  absl::Time now = absl::UnixEpoch();
  options.clock = [&now] { return now; };
  FileSurvey slow(options);
  EXPECT_EQ(slow.Look(path).obstacle, "");
  now += options.most_time + absl::Seconds(1);
  EXPECT_NE(slow.Look(other).obstacle, "");
  // That says nothing of the file.
  slow.Save();
  EXPECT_EQ(FileSurvey(Options()).Look(other).obstacle, "");
}

}  // namespace
}  // namespace warpline::tier
