#include "common/elf/library_walk.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/elf/cache_bytes.h"
#include "common/elf/elf_bytes.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

using Paths = std::vector<std::string>;

// Searches in the test's own folders alone: the default one is "default".
class LibraryWalkTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/walk-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    char* const real = realpath(name.c_str(), nullptr);
    ASSERT_NE(real, nullptr);
    folder_ = real;
    free(real);
    for (const char* const inner : {"a", "b", "default"}) mkdir(Path(inner).c_str(), 0700);
    options_.cache_path = Path("cache");
    options_.default_folders = {Path("default")};
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary | std::ios::trunc) << bytes;
    return Path(name);
  }
  std::string WriteElf(const std::string& name, const std::vector<DynamicText>& texts = {}) const {
    return Write(name, ElfBytes(texts));
  }
  LibraryWalk Walk(const std::string& program) const { return WalkLibraries(program, options_); }
  // The libraries of a program, where all is as it should be.
  Paths Found(const std::string& program) const {
    const LibraryWalk walk = Walk(program);
    EXPECT_EQ(walk.missing, Paths());
    EXPECT_EQ(walk.doubts, Paths());
    return walk.paths;
  }

  std::string folder_;
  WalkOptions options_;
};

TEST_F(LibraryWalkTest, LibrariesThatAreThereAlreadyAreNotLookedFor) {
  WriteElf("default/libx.so", {{DT_SONAME, "libx.so"}, {DT_NEEDED, "liby.so"}});
  const std::string z = WriteElf("default/libz.so", {{DT_NEEDED, "libx.so"}});
  const std::string program = WriteElf("program", {{DT_NEEDED, "libz.so"}});
  options_.present = {"libx.so", "libother.so"};
  const LibraryWalk walk = Walk(program);
  EXPECT_EQ(walk.paths, Paths{z});
  EXPECT_EQ(walk.missing, Paths());
  EXPECT_EQ(walk.present, std::set<std::string>{"libx.so"});
}

TEST_F(LibraryWalkTest, FindsByRunpathFromTheProgramsRealFolder) {
  const std::string library = WriteElf("a/libx.so", {{DT_SONAME, "libx.so"}});
  const std::string program =
      WriteElf("program", {{DT_NEEDED, "libx.so"}, {DT_RUNPATH, "/none:$ORIGIN/a"}});
  EXPECT_EQ(Found(program), Paths{library});
  ASSERT_EQ(symlink(program.c_str(), Path("b/link").c_str()), 0);
  EXPECT_EQ(Found(Path("b/link")), Paths{library});
}

TEST_F(LibraryWalkTest, FindsByCacheThenByDefaultFolders) {
  const std::string cached = WriteElf("a/libx.so"), other = WriteElf("default/libx.so");
  const std::string program = WriteElf("program", {{DT_NEEDED, "libx.so"}});
  EXPECT_EQ(Found(program), Paths{other});
  Write("cache", CacheBytes({{"libx.so", cached}}));
  EXPECT_EQ(Found(program), Paths{cached});
  // The cache names a file that does not exist any more.
  Write("cache", CacheBytes({{"libx.so", Path("a/none.so")}}));
  EXPECT_EQ(Found(program), Paths{other});
}

TEST_F(LibraryWalkTest, FindsALibraryByItsName) {
  EXPECT_EQ(FindLibrary("libx.so", options_), "");
  const std::string other = WriteElf("default/libx.so");
  EXPECT_EQ(FindLibrary("libx.so", options_), other);
  const std::string cached = WriteElf("a/libx.so");
  Write("cache", CacheBytes({{"libx.so", cached}}));
  EXPECT_EQ(FindLibrary("libx.so", options_), cached);
  const std::string in_b = Write("b/libx.so", "no ELF file");
  options_.library_path = Path("b");
  EXPECT_EQ(FindLibrary("libx.so", options_), cached);
  WriteElf("b/libx.so");
  EXPECT_EQ(FindLibrary("libx.so", options_), in_b);
}

TEST_F(LibraryWalkTest, FoldersOfTheEnvironmentComeBetweenRpathAndRunpath) {
  const std::string in_a = WriteElf("a/libx.so"), in_b = WriteElf("b/libx.so");
  options_.library_path = Path("b");
  EXPECT_EQ(Found(WriteElf("p1", {{DT_NEEDED, "libx.so"}, {DT_RPATH, Path("a")}})), Paths{in_a});
  EXPECT_EQ(Found(WriteElf("p2", {{DT_NEEDED, "libx.so"}, {DT_RUNPATH, Path("a")}})), Paths{in_b});
}

TEST_F(LibraryWalkTest, AnRpathIsPassedOnAndARunpathIsNot) {
  const std::string inner = WriteElf("a/libinner.so");
  const std::string outer = WriteElf("default/libouter.so", {{DT_NEEDED, "libinner.so"}});
  EXPECT_EQ(Found(WriteElf("p1", {{DT_NEEDED, "libouter.so"}, {DT_RPATH, Path("a")}})),
            (Paths{outer, inner}));
  const LibraryWalk walk =
      Walk(WriteElf("p2", {{DT_NEEDED, "libouter.so"}, {DT_RUNPATH, Path("a")}}));
  EXPECT_EQ(walk.paths, Paths{outer});
  EXPECT_EQ(walk.missing, Paths{"libinner.so"});
}

TEST_F(LibraryWalkTest, FindsBuildsForProcessorsWhereThereIsNoOther) {
  mkdir(Path("default/glibc-hwcaps").c_str(), 0700);
  mkdir(Path("default/glibc-hwcaps/x86-64-v3").c_str(), 0700);
  const std::string newer = WriteElf("default/glibc-hwcaps/x86-64-v3/libx.so");
  const std::string program = WriteElf("program", {{DT_NEEDED, "libx.so"}});
  EXPECT_EQ(Found(program), Paths{newer});
  const std::string any = WriteElf("default/libx.so");
  EXPECT_EQ(Found(program), Paths{any});
}

TEST_F(LibraryWalkTest, SomeProgramsWantNoDefaultFolders) {
  const std::string library = WriteElf("default/libx.so");
  Write("cache", CacheBytes({{"libx.so", library}}));
  const LibraryWalk walk =
      Walk(Write("program", ElfBytes({{DT_NEEDED, "libx.so"}}, DF_1_NODEFLIB)));
  EXPECT_EQ(walk.paths, Paths());
  EXPECT_EQ(walk.missing, Paths{"libx.so"});
}

TEST_F(LibraryWalkTest, NamesWithSlashesAreTakenAsTheyAre) {
  const std::string library = WriteElf("a/libx.so");
  EXPECT_EQ(Found(WriteElf("program", {{DT_NEEDED, "$ORIGIN/a/libx.so"}})), Paths{library});
}

TEST_F(LibraryWalkTest, EachLibraryComesOnceAndCirclesEnd) {
  const std::string x =
      WriteElf("default/libx.so", {{DT_NEEDED, "liby.so"}, {DT_SONAME, "libx.so"}});
  const std::string y =
      WriteElf("default/liby.so", {{DT_NEEDED, "libx.so"}, {DT_NEEDED, "libz.so"}});
  ASSERT_EQ(link(y.c_str(), Path("default/libz.so").c_str()), 0);
  EXPECT_EQ(Found(WriteElf("program", {{DT_NEEDED, "libx.so"}})), (Paths{x, y}));
}

TEST_F(LibraryWalkTest, AuditorsAreFilesLikeOthers) {
  const std::string auditor = WriteElf("a/auditor.so");
  EXPECT_EQ(Found(WriteElf("p1", {{DT_AUDIT, auditor}})), Paths{auditor});
  EXPECT_EQ(Found(WriteElf("p2", {{DT_DEPAUDIT, auditor}})), Paths{auditor});
}

TEST_F(LibraryWalkTest, WhatIsNoLibraryIsPassedOver) {
  const std::string library = WriteElf("default/libx.so");
  const std::string program =
      WriteElf("program", {{DT_NEEDED, "libx.so"}, {DT_RUNPATH, Path("a")}});
  ASSERT_EQ(mkfifo(Path("a/libx.so").c_str(), 0600), 0);
  EXPECT_EQ(Found(program), Paths{library});
  unlink(Path("a/libx.so").c_str());
  ASSERT_EQ(symlink("/dev/zero", Path("a/libx.so").c_str()), 0);
  EXPECT_EQ(Found(program), Paths{library});
  unlink(Path("a/libx.so").c_str());
  mkdir(Path("a/libx.so").c_str(), 0700);
  EXPECT_EQ(Found(program), Paths{library});
  rmdir(Path("a/libx.so").c_str());
  Write("a/libx.so", "#!/bin/sh\n");
  EXPECT_EQ(Found(program), Paths{library});
}

TEST_F(LibraryWalkTest, OtherFilesHaveNoLibraries) {
  for (const std::string& program :
       {Write("text", std::string("text")), Path("none"), folder_, std::string("/dev/zero")}) {
    EXPECT_EQ(Found(program), Paths());
  }
}

TEST_F(LibraryWalkTest, AFileThatContradictsItselfIsNamed) {
  std::string damaged = ElfBytes({{DT_NEEDED, "libx.so"}});
  damaged.resize(damaged.size() - 4);
  Write("default/libdamaged.so", damaged);
  const LibraryWalk walk = Walk(WriteElf("program", {{DT_NEEDED, "libdamaged.so"}}));
  EXPECT_EQ(walk.paths.size(), 1u);
  EXPECT_EQ(
      walk.doubts,
      Paths{absl::StrCat("the libraries of ", Path("default/libdamaged.so"),
                         " are not known: the name of a library that it needs cannot be read")});
}

TEST_F(LibraryWalkTest, BoundsEndTheSearchAndAreNamed) {
  for (int i = 0; i < 20; ++i) {
    WriteElf(absl::StrCat("default/lib", i, ".so"),
             {{DT_NEEDED, absl::StrCat("lib", i + 1, ".so")}});
  }
  WriteElf("default/lib20.so");
  const std::string program = WriteElf("program", {{DT_NEEDED, "lib0.so"}});
  EXPECT_EQ(Found(program).size(), 21u);
  const WalkOptions whole = options_;
  const auto doubt = [&](const std::string& word, size_t most_found) {
    const LibraryWalk walk = Walk(program);
    EXPECT_LE(walk.paths.size(), most_found);
    ASSERT_EQ(walk.doubts.size(), 1u);
    EXPECT_NE(walk.doubts[0].find(word), std::string::npos) << walk.doubts[0];
    options_ = whole;
  };
  options_.most_libraries = 5;
  doubt("more than 5 libraries", 5);
  options_.most_depth = 5;
  doubt("more than 5 others", 5);
  options_.most_tries = 5;
  doubt("more than 5 files", 5);
  options_.most_bytes = 5000;
  doubt("more than 5000 bytes", 20);
}

TEST_F(LibraryWalkTest, ChangedProgramsDoNoHarm) {
  WriteElf("default/libx.so", {{DT_NEEDED, "liby.so"}});
  const std::string whole = ElfBytes({{DT_NEEDED, "libx.so"}, {DT_RUNPATH, "$ORIGIN/a:$LIB"}});
  options_.most_tries = 200;
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string changed = whole.substr(0, whole.size() - random() % 16);
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_LE(Walk(Write("program", changed)).paths.size(), 1u);
  }
}

// A program of this system, with the folders of this system.
TEST(LibraryWalkHereTest, FindsTheCLibraryOfThisProgram) {
  const LibraryWalk walk = WalkLibraries("/proc/self/exe", WalkOptionsHere());
  EXPECT_EQ(walk.doubts, Paths());
  EXPECT_TRUE(std::any_of(walk.paths.begin(), walk.paths.end(),
                          [](const std::string& path) { return path.ends_with("/libc.so.6"); }));
}

}  // namespace
}  // namespace warpline::elf
