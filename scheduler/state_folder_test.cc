#include "scheduler/state_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

class StateFolderTest : public testing::Test {
 protected:
  StateFolderTest() : folder_(testing::TempDir() + "/state_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) abort();
  }

  KeyRing Ring(absl::Time now) {
    return KeyRing::Open(folder_ + "/keys", absl::Hours(1), absl::Minutes(1), now).value();
  }

  std::string folder_;
  const absl::Time start_ = absl::FromUnixSeconds(1800000000);
};

TEST_F(StateFolderTest, FolderIsMadeAndHeldByOneScheduler) {
  const std::string folder = folder_ + "/a/b";
  ASSERT_TRUE(HoldStateFolder(folder).ok());
  EXPECT_EQ(HoldStateFolder(folder).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateFolderTest, TheTermIsReadFromItsFile) {
  const std::string path = folder_ + "/epoch";
  EXPECT_EQ(EpochIn(path).value(), 0u);
  ASSERT_TRUE(WriteSecret(path, "18446744073709551615\n").ok());
  EXPECT_EQ(EpochIn(path).value(), ~uint64_t{0});
  for (const char* const damage : {"-1", "7 8", "x", "18446744073709551616"}) {
    ASSERT_TRUE(WriteSecret(path, damage).ok());
    EXPECT_EQ(EpochIn(path).status().code(), absl::StatusCode::kDataLoss) << damage;
  }
}

TEST_F(StateFolderTest, FolderThatOthersCanWriteIsRefused) {
  chmod(folder_.c_str(), 0777);
  EXPECT_EQ(HoldStateFolder(folder_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(HoldStateFolder("/proc/no/such").ok());
}

TEST_F(StateFolderTest, FolderOfAnotherUserIsRefused) {
  const std::string link = folder_ + "/link";
  const std::string folder = folder_ + "/own";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(symlink(folder.c_str(), link.c_str()), 0);
  // Root of a namespace that has no other users cannot give it away, and others cannot at all.
  if (lchown(link.c_str(), 65534, 65534) != 0) {
    if (geteuid() != 0) {
      EXPECT_EQ(HoldStateFolder("/").code(), absl::StatusCode::kFailedPrecondition);
    }
    GTEST_SKIP() << "needs the right to change owners";
  }
  EXPECT_EQ(HoldStateFolder(link).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_EQ(HoldStateFolder(folder).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateFolderTest, FilesAreNotWrittenThroughLinks) {
  const std::string path = folder_ + "/credential";
  const std::string other = folder_ + "/other";
  ASSERT_EQ(symlink(other.c_str(), (path + ".part").c_str()), 0);
  EXPECT_FALSE(WriteSecret(path, "text").ok());
  struct stat info;
  EXPECT_NE(lstat(other.c_str(), &info), 0);
}

TEST_F(StateFolderTest, CredentialIsMadeOnceAndForItsOwnerAlone) {
  const std::string path = folder_ + "/credential";
  const auto made = CredentialIn(path);
  ASSERT_TRUE(made.ok());
  EXPECT_GE(made->size(), 40u);
  EXPECT_EQ(CredentialIn(path).value(), *made);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_NE(NewCredential(), NewCredential());
}

TEST_F(StateFolderTest, CredentialIsTheWordHoweverItsFileWasWritten) {
  const std::string path = folder_ + "/credential";
  std::ofstream(path) << "\xef\xbb\xbfsecret\r\n";
  EXPECT_EQ(CredentialIn(path).value(), "secret");
  std::ofstream(path) << "two words\n";
  EXPECT_EQ(CredentialIn(path).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateFolderTest, KeysOutliveTheScheduler) {
  const std::string id = Ring(start_).SignerAt(start_).verify_key().id;
  EXPECT_EQ(Ring(start_ + absl::Minutes(1)).SignerAt(start_).verify_key().id, id);
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/keys").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(StateFolderTest, NewKeySignsOnceItIsKnownAndTheOldOneStays) {
  KeyRing ring = Ring(start_);
  const std::string first = ring.SignerAt(start_).verify_key().id;
  EXPECT_FALSE(*ring.RotateIfDue(start_ + absl::Minutes(59)));
  const absl::Time due = start_ + absl::Hours(1);
  EXPECT_TRUE(*ring.RotateIfDue(due));
  ASSERT_EQ(ring.VerifyKeys().size(), 2u);
  EXPECT_EQ(ring.SignerAt(due).verify_key().id, first);
  const std::string second = ring.SignerAt(due + absl::Minutes(1)).verify_key().id;
  EXPECT_NE(second, first);
  EXPECT_TRUE(*ring.RotateIfDue(due + absl::Hours(1)));
  ASSERT_EQ(ring.VerifyKeys().size(), 2u);
  EXPECT_EQ(ring.VerifyKeys()[1].id, second);
}

TEST_F(StateFolderTest, KeysAreTheSameWithOtherLineEnds) {
  const std::string path = folder_ + "/keys";
  const std::string id = Ring(start_).SignerAt(start_).verify_key().id;
  std::string line;
  std::getline(std::ifstream(path), line);
  std::ofstream(path) << "\xef\xbb\xbf" << line << "\r\n";
  EXPECT_EQ(Ring(start_).SignerAt(start_).verify_key().id, id);
}

TEST_F(StateFolderTest, DamagedKeysAreRefusedAndNotReplaced) {
  const std::string path = folder_ + "/keys";
  for (const char* text : {"1 zz\n", "no key", "1 00 00\n"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(KeyRing::Open(path, absl::Hours(1), absl::Minutes(1), start_).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace warpline::scheduler
