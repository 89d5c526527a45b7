// Tests of files. key_value_store_test.cc has the rest.
#include "scheduler/store/sqlite_key_value_store.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

class SqliteKeyValueStoreTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.path() + "/state.db"; }

  absl::StatusOr<std::unique_ptr<SqliteKeyValueStore>> Open() {
    return SqliteKeyValueStore::Open(Path());
  }

  size_t Count() {
    size_t count = 0;
    const auto status = Open().value()->ForEach([&](absl::string_view, const std::string&) {
      ++count;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return count;
  }

  void ExpectRefused(Code code) {
    const absl::Status refused = Open().status();
    EXPECT_EQ(refused.code(), code) << refused;
    EXPECT_THAT(refused.message(), HasSubstr(Path()));
    EXPECT_THAT(refused.message(), HasSubstr("put back a copy"));
  }

  testing::TempFolder folder_;
};

// A child writes keys, tells each number when its call has returned, and is killed meanwhile.
TEST_F(SqliteKeyValueStoreTest, WhatWasAnsweredSurvivesBeingKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = Open();
    for (int i = 0; store.ok(); ++i) {
      if (!(*store)->Write({.puts = {{absl::StrCat(i), "value"}}}).ok()) break;
      if (write(ends[1], &i, sizeof(i)) != sizeof(i)) break;
    }
    _exit(1);
  }
  close(ends[1]);
  int last = -1;
  int number;
  while (read(ends[0], &number, sizeof(number)) == sizeof(number)) {
    last = number;
    if (number == 20) kill(child, SIGKILL);
  }
  close(ends[0]);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GE(last, 20);
  const size_t count = Count();
  EXPECT_GE(count, static_cast<size_t>(last) + 1);
  EXPECT_LE(count, static_cast<size_t>(last) + 2);
}

TEST_F(SqliteKeyValueStoreTest, OnlyTheOwnerReadsTheFile) {
  ASSERT_TRUE(Open().ok());
  struct stat info = {};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(SqliteKeyValueStoreTest, DamageIsFoundWhenTheFileIsOpened) {
  auto store = Open().value();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store->Write({.puts = {{absl::StrCat(i), std::string(200, 'v')}}}).ok());
  }
  store.reset();
  // The schema, on the first page, stays as it was.
  constexpr std::streamoff kPage = 4096;
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(Path()));
  ASSERT_GT(bytes, kPage);
  std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kPage);
  file << std::string(static_cast<size_t>(bytes - kPage), '\x5a');
  file.close();
  ASSERT_TRUE(file.good());
  ExpectRefused(Code::kDataLoss);
}

// If it were taken for an empty one, its leases would be given out a second time.
TEST_F(SqliteKeyValueStoreTest, AFileWithoutItsTableIsNotAnEmptyOne) {
  ASSERT_TRUE(Open().ok());
  const auto execute = [&](const char* sql) {
    ASSERT_TRUE(Database::Open(Path()).value()->Execute(sql).ok());
  };
  execute("DROP TABLE records");
  ExpectRefused(Code::kDataLoss);
  execute("CREATE TABLE tenants (name TEXT)");
  ExpectRefused(Code::kDataLoss);
}

TEST_F(SqliteKeyValueStoreTest, AFileThatCannotBeOpenedIsNamed) {
  ASSERT_EQ(mkdir(Path().c_str(), 0700), 0);
  ExpectRefused(Code::kUnavailable);
}

TEST_F(SqliteKeyValueStoreTest, WhatIsNoDatabaseIsRefused) {
  std::ofstream(Path()) << "this is not a database, however long it may be, and it stays as it is";
  ExpectRefused(Code::kUnavailable);
}

}  // namespace
}  // namespace warpline::scheduler
