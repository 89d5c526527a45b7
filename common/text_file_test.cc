#include "common/text_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using std::string_literals::operator""s;

std::string FileWith(const std::string& bytes) {
  static int number = 0;
  const std::string path = testing::TempDir() + "/text-" + std::to_string(number++);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

absl::StatusCode CodeOf(const std::string& bytes) {
  return ReadWordFile(FileWith(bytes)).status().code();
}

TEST(TextFileTest, AWordIsTheSameHoweverItsFileWasWritten) {
  for (const char* bytes : {"secret", "secret\n", "secret\r\n", "\xef\xbb\xbfsecret",
                            "\xef\xbb\xbfsecret\r\n", "\nsecret", "  secret \t\n\n"}) {
    EXPECT_EQ(*ReadWordFile(FileWith(bytes)), "secret") << bytes;
    EXPECT_EQ(*OnlyWordOf(bytes), "secret") << bytes;
  }
}

TEST(TextFileTest, WhatIsNoWordIsRefused) {
  for (const std::string& bytes : {""s, "\n"s, "\xef\xbb\xbf\r\n"s, "two words"s, "two\nlines\n"s,
                                   "zero\0"s, "\x7f"s, "\xff\xfes\0e\0c\0"s, "\xfe\xff\0s\0e"s}) {
    EXPECT_EQ(CodeOf(bytes), absl::StatusCode::kInvalidArgument) << bytes;
  }
}

TEST(TextFileTest, ErrorsSayWhichFileAndNothingOfWhatIsInIt) {
  const std::string path = FileWith("one two");
  EXPECT_EQ(ReadWordFile(path).status().message(),
            "cannot read " + path + ": it has more than one word");
  EXPECT_NE(ReadTextFile(FileWith("\xff\xfes\0"s), 9).status().message().find("UTF-16"),
            absl::string_view::npos);
}

TEST(TextFileTest, FilesThatAreNotThereOrNoFilesAreRefused) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(ReadWordFile(folder + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadWordFile(folder).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string path = FileWith("secret");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  if (access(path.c_str(), R_OK) != 0) {
    EXPECT_EQ(ReadWordFile(path).status().code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(TextFileTest, APipeMayHoldAWord) {
  const std::string path = testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadTextFile(path, 9).status().code(), absl::StatusCode::kInvalidArgument);
  std::thread writer([&path] { std::ofstream(path) << "secret\n"; });
  EXPECT_EQ(*ReadWordFile(path), "secret");
  writer.join();
}

TEST(TextFileTest, AnotherUsersFileIsNotOnesOwn) {
  const std::string path = FileWith("secret\n");
  EXPECT_EQ(*ReadOwnWordFile(path), "secret");
  if (chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(ReadOwnWordFile(path).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(TextFileTest, NoMoreIsReadThanMayBe) {
  EXPECT_EQ(*ReadTextFile(FileWith("1234"), 4), "1234");
  EXPECT_EQ(ReadTextFile(FileWith("12345"), 4).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(std::string(kMaxWordBytes + 1, 'a')), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadWordFile("/dev/zero").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextFileTest, TextKeepsItsLines) {
  EXPECT_EQ(*ReadTextFile(FileWith("\xef\xbb\xbf-----BEGIN\r\nX\r\n"), 99), "-----BEGIN\r\nX\r\n");
}

}  // namespace
}  // namespace warpline
