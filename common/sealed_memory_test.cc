#include "common/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kBytes = 3ull * 4096;

TEST(SealedMemoryTest, IsZerosOfTheSizeThatCanBeWritten) {
  const auto memory = NewSealedMemory("test", kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  struct stat info;
  ASSERT_EQ(fstat(memory->get(), &info), 0);
  EXPECT_EQ(info.st_size, static_cast<off_t>(kBytes));
  void* const map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* const bytes = static_cast<char*>(map);
  EXPECT_EQ(std::string(bytes, kBytes), std::string(kBytes, '\0'));
  bytes[kBytes - 1] = 'x';
  char last = 0;
  EXPECT_EQ(pread(memory->get(), &last, 1, kBytes - 1), 1);
  EXPECT_EQ(last, 'x');
  munmap(map, kBytes);
}

TEST(SealedMemoryTest, NobodyChangesItsSizeOrItsSeals) {
  const auto memory = NewSealedMemory("test", kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_NE(ftruncate(memory->get(), 4096), 0);
  EXPECT_NE(ftruncate(memory->get(), 2 * kBytes), 0);
  EXPECT_EQ(pwrite(memory->get(), "x", 1, kBytes), -1);
  EXPECT_NE(fcntl(memory->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SealedMemoryTest, ChildrenDoNotInheritIt) {
  const auto memory = NewSealedMemory("test", kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_NE(fcntl(memory->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SealedMemoryTest, SaysWhyThereIsNone) {
  const auto memory = NewSealedMemory("far-too-much", ~uint64_t{0});
  ASSERT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(memory.status().message()).find("far-too-much"), std::string::npos);
}

}  // namespace
}  // namespace warpline
