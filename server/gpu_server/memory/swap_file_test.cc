#include "server/gpu_server/memory/swap_file.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;
// The content of a granule begins with it, and the granule's number follows.
constexpr char kMark[] = "plain memory of a session ";

bool Never() { return false; }

// Refuses a system call of this thread with `error` from now on: any, or only one whose argument
// `argument` has all bits of `flags`.
void Refuse(unsigned call, int error, unsigned argument = 0, unsigned flags = 0) {
  const auto at = static_cast<unsigned>(offsetof(seccomp_data, args) + argument * sizeof(__u64));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0) << strerror(errno);
}

// Calls `body` in a thread of its own, whose filters of system calls end with it.
template <typename Body>
void InAnotherThread(const Body& body) {
  std::thread(body).join();
}

// Keeps the process from writing past `bytes` of any file.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  const sighandler_t handler_;
  rlimit before_;
};

class SwapFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/swap_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(std::filesystem::create_directory(directory_));
    auto space = SwapSpace::Open(12 * kGranule, 1);
    ASSERT_TRUE(space.ok()) << space.status();
    space_ = *std::move(space);
    place_ = Scattered();
    for (size_t i = 0; i < Granules(*space_, place_).size(); ++i) {
      ASSERT_TRUE(Put(*space_, place_, i, kMark + std::to_string(i)));
    }
    auto file = SwapFile::Create(directory_);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    std::filesystem::remove_all(directory_);
  }

  // Takes two granules of the space in two extents.
  SwapSpace::Place Scattered() {
    auto first = *space_->Take(kGranule);
    const auto between = *space_->Take(kGranule);
    const auto rest = *space_->Take(space_->free_bytes() - kGranule);
    first = SwapSpace::Place();
    // One is free at the start and one at the end.
    auto place = *space_->Take(2 * kGranule);
    EXPECT_EQ(place.extents().size(), 2u);
    return place;
  }

  static std::vector<std::pair<int, off_t>> Granules(const SwapSpace& space,
                                                     const SwapSpace::Place& place) {
    std::vector<std::pair<int, off_t>> granules;
    for (const auto& extent : place.extents()) {
      for (uint64_t at = 0; at < extent.bytes; at += kGranule) {
        granules.emplace_back(space.block_fd(extent.block), extent.offset + at);
      }
    }
    return granules;
  }

  static bool Put(const SwapSpace& space, const SwapSpace::Place& place, size_t granule,
                  std::string text) {
    text.resize(kGranule, static_cast<char>('a' + granule));
    const auto [fd, offset] = Granules(space, place)[granule];
    return pwrite(fd, text.data(), text.size(), offset) == static_cast<ssize_t>(kGranule);
  }

  static std::string Content(const SwapSpace& space, const SwapSpace::Place& place) {
    std::string content;
    for (const auto& [fd, offset] : Granules(space, place)) content += Piece(fd, offset);
    return content;
  }

  static std::string Piece(int fd, off_t offset) {
    std::string piece(kGranule, '\0');
    const ssize_t n = pread(fd, piece.data(), piece.size(), offset);
    piece.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return piece;
  }

  static off_t SizeOf(const SwapFile& file) { return lseek(file.fd(), 0, SEEK_END); }

  void ExpectNoNameAndNoAccess() {
    struct stat info;
    ASSERT_EQ(fstat(file_->fd(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
    EXPECT_EQ(info.st_nlink, 0u);
    EXPECT_EQ(fcntl(file_->fd(), F_GETFD), FD_CLOEXEC);
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
  }

  absl::Status Write() { return file_->Write(*space_, place_, Never); }
  absl::Status ReadBack() { return file_->Read(*space_, place_, Never); }

  std::string directory_;
  std::unique_ptr<SwapSpace> space_;
  SwapSpace::Place place_;
  std::unique_ptr<SwapFile> file_;
};

TEST_F(SwapFileTest, BringsTheContentToAnotherPlace) {
  const auto status = Write();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(file_->bytes(), 2 * kGranule);
  const auto other = *space_->Take(2 * kGranule);
  EXPECT_NE(Content(*space_, other), Content(*space_, place_));
  for (int i = 0; i < 2; ++i) {  // It can be read again.
    ASSERT_TRUE(file_->Read(*space_, other, Never).ok());
    EXPECT_EQ(Content(*space_, other), Content(*space_, place_));
  }
}

TEST_F(SwapFileTest, BringsBackExtentsOfSeveralBlocks) {
  // A second block begins only after this much; few machines lack it.
  const auto space = SwapSpace::Open(SwapSpace::kBlockBytes + 2 * kGranule, 2);
  if (!space.ok()) GTEST_SKIP() << space.status();
  ASSERT_EQ((*space)->blocks(), 2u);
  const auto before = *(*space)->Take(SwapSpace::kBlockBytes - 2 * kGranule);
  auto place = *(*space)->Take(3 * kGranule);
  ASSERT_EQ(place.extents().size(), 2u);
  EXPECT_NE(place.extents()[0].block, place.extents()[1].block);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(Put(**space, place, i, kMark + std::to_string(i)));
  const std::string content = Content(**space, place);
  ASSERT_TRUE(file_->Write(**space, place, Never).ok());
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(Put(**space, place, i, "gone"));
  const auto status = file_->Read(**space, place, Never);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Content(**space, place), content);
}

TEST_F(SwapFileTest, TheFileHoldsNoPlainContent) {
  ASSERT_TRUE(Write().ok());
  ASSERT_EQ(SizeOf(*file_), static_cast<off_t>(2 * kGranule));
  for (off_t piece = 0; piece < 2; ++piece) {
    const std::string stored = Piece(file_->fd(), piece * static_cast<off_t>(kGranule));
    EXPECT_FALSE(absl::StrContains(stored, kMark));
    EXPECT_FALSE(absl::StrContains(stored, std::string(16, static_cast<char>('a' + piece))));
  }
}

TEST_F(SwapFileTest, TwoFilesOfOneContentDiffer) {
  const auto other = *SwapFile::Create(directory_);
  ASSERT_TRUE(Write().ok());
  ASSERT_TRUE(other->Write(*space_, place_, Never).ok());
  EXPECT_NE(Piece(file_->fd(), 0), Piece(other->fd(), 0));
  // A file cannot be read with the other one's key.
  const std::string theirs = Piece(other->fd(), 0);
  ASSERT_EQ(pwrite(file_->fd(), theirs.data(), theirs.size(), 0), static_cast<ssize_t>(kGranule));
  EXPECT_TRUE(absl::IsDataLoss(ReadBack()));
}

TEST_F(SwapFileTest, OnlyItsUserCanOpenTheFileAndItHasNoName) { ExpectNoNameAndNoAccess(); }

TEST_F(SwapFileTest, AFileSystemWithoutNamelessFilesGetsOneThatLosesItsName) {
  InAnotherThread([&] {
    Refuse(SYS_openat, EOPNOTSUPP, 2, O_TMPFILE & ~O_DIRECTORY);
    ASSERT_LT(open(directory_.c_str(), O_TMPFILE | O_RDWR, 0600), 0);
    auto file = SwapFile::Create(directory_);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    EXPECT_TRUE(CheckSwapDirectory(directory_).ok());
  });
  ExpectNoNameAndNoAccess();
  ASSERT_TRUE(Write().ok());
  EXPECT_TRUE(ReadBack().ok());
}

TEST_F(SwapFileTest, AChangedByteIsNoticed) {
  ASSERT_TRUE(Write().ok());
  const std::string content = Content(*space_, place_);
  char byte = 0;
  const off_t at = kGranule + 12345;
  ASSERT_EQ(pread(file_->fd(), &byte, 1, at), 1);
  byte = static_cast<char>(byte ^ 1);
  ASSERT_EQ(pwrite(file_->fd(), &byte, 1, at), 1);
  const auto status = ReadBack();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), directory_)) << status;
  EXPECT_EQ(Content(*space_, place_), content);  // Nothing wrong came to the place.
}

TEST_F(SwapFileTest, PiecesInAnotherOrderAreNoticed) {
  ASSERT_TRUE(Write().ok());
  const std::string first = Piece(file_->fd(), 0), second = Piece(file_->fd(), kGranule);
  ASSERT_EQ(pwrite(file_->fd(), second.data(), kGranule, 0), static_cast<ssize_t>(kGranule));
  ASSERT_EQ(pwrite(file_->fd(), first.data(), kGranule, kGranule), static_cast<ssize_t>(kGranule));
  EXPECT_TRUE(absl::IsDataLoss(ReadBack()));
}

TEST_F(SwapFileTest, AShorterFileIsNoticed) {
  ASSERT_TRUE(Write().ok());
  ASSERT_EQ(ftruncate(file_->fd(), 2 * kGranule - 1), 0);
  EXPECT_TRUE(absl::IsDataLoss(ReadBack()));
  ASSERT_EQ(ftruncate(file_->fd(), 2 * kGranule), 0);  // A zero took the byte's place.
  EXPECT_TRUE(absl::IsDataLoss(ReadBack()));
  ASSERT_EQ(ftruncate(file_->fd(), 0), 0);
  EXPECT_TRUE(absl::IsDataLoss(ReadBack()));
}

TEST_F(SwapFileTest, AFileThatMayNotGrowSoLargeIsRefusedBeforeItIsWritten) {
  const std::string content = Content(*space_, place_);
  const FileSizeLimit limit(kGranule);
  const auto status = Write();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "reserve")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), directory_)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), strerror(EFBIG))) << status;
  EXPECT_EQ(SizeOf(*file_), 0);
  EXPECT_EQ(Content(*space_, place_), content);
}

TEST_F(SwapFileTest, AFullFileSystemThatReservesNothingIsNoticedOnTheWay) {
  const std::string content = Content(*space_, place_);
  const FileSizeLimit limit(kGranule + kGranule / 2);
  InAnotherThread([&] {
    Refuse(SYS_fallocate, EOPNOTSUPP);
    const auto status = Write();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "write")) << status;
  });
  EXPECT_EQ(SizeOf(*file_), 0);
  EXPECT_EQ(file_->bytes(), 0u);
  EXPECT_EQ(Content(*space_, place_), content);
}

TEST_F(SwapFileTest, AFileSystemThatReservesNothingIsGoodEnough) {
  InAnotherThread([&] {
    Refuse(SYS_fallocate, EOPNOTSUPP);
    EXPECT_TRUE(Write().ok());
  });
  EXPECT_TRUE(ReadBack().ok());
}

TEST_F(SwapFileTest, EveryErrorForAFullDiskIsResourceExhausted) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    InAnotherThread([&] {
      const auto file = *SwapFile::Create(directory_);
      Refuse(SYS_fallocate, error);
      const auto status = file->Write(*space_, place_, Never);
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    });
  }
}

TEST_F(SwapFileTest, AnErrorThatTheDiskReportsAtTheEndIsNoticed) {
  InAnotherThread([&] {
    Refuse(SYS_fdatasync, EIO);
    const auto status = Write();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), strerror(EIO))) << status;
  });
  EXPECT_EQ(SizeOf(*file_), 0);
}

TEST_F(SwapFileTest, StopsBetweenPieces) {
  int asked = 0;
  const auto at_third = [&asked] { return ++asked == 3; };  // The first one is before reserving.
  EXPECT_TRUE(absl::IsCancelled(file_->Write(*space_, place_, at_third)));
  EXPECT_EQ(SizeOf(*file_), 0);
  EXPECT_EQ(file_->bytes(), 0u);

  file_ = *SwapFile::Create(directory_);
  ASSERT_TRUE(Write().ok());
  asked = 1;
  EXPECT_TRUE(absl::IsCancelled(file_->Read(*space_, place_, at_third)));
  EXPECT_TRUE(ReadBack().ok());
}

TEST_F(SwapFileTest, AKeyIsUsedOnce) {
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadBack()));
  EXPECT_TRUE(absl::IsCancelled(file_->Write(*space_, place_, [] { return true; })));
  EXPECT_TRUE(absl::IsFailedPrecondition(Write()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadBack()));
  file_ = *SwapFile::Create(directory_);
  ASSERT_TRUE(Write().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Write()));
}

TEST_F(SwapFileTest, APlaceOfAnotherSizeIsRefused) {
  ASSERT_TRUE(Write().ok());
  const auto larger = *space_->Take(3 * kGranule);
  EXPECT_TRUE(absl::IsInvalidArgument(file_->Read(*space_, larger, Never)));
}

TEST_F(SwapFileTest, AnEmptyPlaceIsWrittenAndRead) {
  const SwapSpace::Place none;
  ASSERT_TRUE(file_->Write(*space_, none, Never).ok());
  EXPECT_TRUE(file_->Read(*space_, none, Never).ok());
  EXPECT_EQ(file_->bytes(), 0u);
}

TEST_F(SwapFileTest, ADirectoryThatHoldsFilesPassesTheCheck) {
  const auto status = CheckSwapDirectory(directory_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SwapFileTest, AMissingDirectoryIsNamed) {
  const std::string missing = directory_ + "/missing";
  for (const auto& status : {CheckSwapDirectory(missing), SwapFile::Create(missing).status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), missing)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "create the directory")) << status;
  }
}

TEST_F(SwapFileTest, AFileIsNoDirectory) {
  const std::string path = directory_ + "/file";
  std::ofstream(path) << "text";
  const auto status = CheckSwapDirectory(path);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "name a directory")) << status;
  std::filesystem::remove(path);
}

TEST_F(SwapFileTest, ADirectoryWithoutWriteAccessIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(chmod(directory_.c_str(), 0500), 0);
  const auto status = CheckSwapDirectory(directory_);
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "let the server's user write")) << status;
}

TEST_F(SwapFileTest, ADirectoryThatCannotBeWrittenFailsTheCheck) {
  InAnotherThread([&] {
    Refuse(SYS_pwrite64, ENOSPC);
    const auto status = CheckSwapDirectory(directory_);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "make room")) << status;
  });
}

}  // namespace
}  // namespace warpline::server
