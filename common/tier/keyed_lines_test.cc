#include "common/tier/keyed_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

using Lines = std::map<std::string, std::string>;

class KeyedLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/keyed-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name + "/a/b";
  }
  KeyedLines::Options Options() const { return {.folder = folder_, .name = "lines"}; }
  std::string Path() const { return folder_ + "/lines"; }
  void Write(const std::string& text) const { std::ofstream(Path(), std::ios::binary) << text; }

  std::string folder_;
};

TEST_F(KeyedLinesTest, KeepsLinesForTheUserAlone) {
  const KeyedLines lines(Options());
  EXPECT_EQ(lines.Read(), Lines());
  EXPECT_TRUE(lines.Put({{"a", "first"}, {"b", "second one"}}));
  EXPECT_TRUE(lines.Put({{"a", "third"}}));
  EXPECT_EQ(KeyedLines(Options()).Read(), (Lines{{"a", "third"}, {"b", "second one"}}));
  struct stat is;
  ASSERT_EQ(stat(Path().c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0700u);
}

TEST_F(KeyedLinesTest, WithoutAFolderNothingIsKept) {
  for (const char* folder : {"", "relative", "/proc/none/such"}) {
    const KeyedLines lines({.folder = folder, .name = "lines"});
    EXPECT_FALSE(lines.Put({{"a", "b"}})) << folder;
    EXPECT_EQ(lines.Read(), Lines()) << folder;
  }
}

TEST_F(KeyedLinesTest, InAFolderOfSomebodyElsesNothingIsKept) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  if (chown(folder_.c_str(), geteuid() + 1, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "takes the right to give files away";
  }
  EXPECT_EQ(lines.Read(), Lines());
  EXPECT_FALSE(lines.Put({{"c", "d"}}));
}

TEST_F(KeyedLinesTest, OldestLinesGoFirst) {
  KeyedLines::Options options = Options();
  options.most_lines = 3;
  const KeyedLines lines(options);
  for (const char* key : {"a", "b", "c", "a", "d"}) lines.Put({{key, "x"}});
  EXPECT_EQ(lines.Read(), (Lines{{"a", "x"}, {"c", "x"}, {"d", "x"}}));
  options.most_bytes = 8;
  KeyedLines(options).Put({{"e", "y"}});
  EXPECT_EQ(KeyedLines(options).Read(), (Lines{{"e", "y"}}));
}

TEST_F(KeyedLinesTest, WhatIsNoLineIsLeftOut) {
  const KeyedLines lines(Options());
  EXPECT_TRUE(lines.Put({{"a", "good"},
                         {"", "x"},
                         {"two words", "x"},
                         {"b", ""},
                         {"c", "new\nline"},
                         {"d", std::string(KeyedLines::kMostLine, 'x')}}));
  EXPECT_EQ(lines.Read(), (Lines{{"a", "good"}}));
  using std::string_literals::operator""s;
  Write("garbage\n\0\xff\xfe x\n a b\nb fine\nc\nd \x01\n"s + "e cut");
  EXPECT_EQ(lines.Read(), (Lines{{"b", "fine"}, {"e", "cut"}}));
  EXPECT_TRUE(lines.Put({{"f", "more"}}));
  EXPECT_EQ(lines.Read(), (Lines{{"b", "fine"}, {"e", "cut"}, {"f", "more"}}));
}

TEST_F(KeyedLinesTest, RandomBytesAreReadAndReplaced) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 3000, '\0');
    for (char& c : text) {
      c = static_cast<char>(random() % 4 == 0 ? "\n ab"[random() % 4] : random());
    }
    Write(text);
    EXPECT_TRUE(lines.Put({{"mine", "kept"}}));
    EXPECT_EQ(lines.Read()["mine"], "kept");
  }
}

TEST_F(KeyedLinesTest, AFileThatIsTooLargeIsAsGoodAsNone) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  Write("b c\n" + std::string(Options().most_bytes, 'x'));
  EXPECT_EQ(lines.Read(), Lines());
  EXPECT_TRUE(lines.Put({{"d", "e"}}));
  EXPECT_EQ(lines.Read(), (Lines{{"d", "e"}}));
}

TEST_F(KeyedLinesTest, NoOtherFileIsReadOrWritten) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "x y\n";
  ASSERT_EQ(unlink(Path().c_str()), 0);
  ASSERT_EQ(symlink(other.c_str(), Path().c_str()), 0);
  EXPECT_EQ(lines.Read(), Lines());
  // The name is replaced, and what it led to stays.
  EXPECT_TRUE(lines.Put({{"c", "d"}}));
  EXPECT_EQ(lines.Read(), (Lines{{"c", "d"}}));
  std::string kept;
  std::getline(std::ifstream(other), kept);
  EXPECT_EQ(kept, "x y");
  // Reading what somebody else may write to whenever they like would wait.
  ASSERT_EQ(unlink(Path().c_str()), 0);
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(lines.Read(), Lines());
}

TEST_F(KeyedLinesTest, AWriterWhoseTurnDoesNotComeWritesNothing) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  const UniqueFd lock(open((Path() + ".lock").c_str(), O_RDWR));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  EXPECT_FALSE(lines.Put({{"c", "d"}}));
  EXPECT_EQ(lines.Read(), (Lines{{"a", "b"}}));
  ASSERT_EQ(flock(lock.get(), LOCK_UN), 0);
  EXPECT_TRUE(lines.Put({{"c", "d"}}));
}

TEST_F(KeyedLinesTest, AWriterThatWasKilledStopsNobody) {
  const KeyedLines lines(Options());
  ASSERT_TRUE(lines.Put({{"a", "b"}}));
  std::ofstream(Path() + ".new") << "half a li";
  EXPECT_TRUE(lines.Put({{"c", "d"}}));
  EXPECT_EQ(lines.Read(), (Lines{{"a", "b"}, {"c", "d"}}));
}

TEST_F(KeyedLinesTest, WritersAtOnceLoseNothing) {
  constexpr size_t kWriters = 4, kLines = 10;
  std::vector<pid_t> writers;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      const KeyedLines lines(Options());
      for (size_t line = 0; line < kLines; ++line) {
        while (!lines.Put({{absl::StrCat("w", writer, "-", line), "x"}})) {
        }
      }
      _exit(0);
    }
    writers.push_back(child);
  }
  // A reader meets whole states only.
  const KeyedLines lines(Options());
  size_t seen = 0;
  for (const pid_t writer : writers) {
    int status = -1;
    while (waitpid(writer, &status, WNOHANG) == 0) {
      const size_t now = lines.Read().size();
      EXPECT_GE(now, seen);
      seen = now;
      std::this_thread::yield();
    }
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(lines.Read().size(), kWriters * kLines);
}

}  // namespace
}  // namespace warpline::tier
