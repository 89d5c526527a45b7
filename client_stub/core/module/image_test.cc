#include "client_stub/core/module/image.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(FindImageTest, PtxIsFoundWithoutItsEnd) {
  const char ptx[] = ".version 9.0\n.target sm_75\n";
  std::string_view bytes;
  ASSERT_EQ(FindImage(ptx, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, ptx);
  EXPECT_EQ(bytes.data(), ptx);
}

TEST(FindImageTest, WhatIsNoImageHasCudasError) {
  std::string_view bytes;
  EXPECT_EQ(FindImage(nullptr, &bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(FindImage("hello, device", &bytes), CUDA_ERROR_INVALID_IMAGE);
  const unsigned char zeros[64] = {};
  EXPECT_EQ(FindImage(zeros, &bytes), CUDA_ERROR_INVALID_IMAGE);
}

TEST(ReadImageFileTest, ReadsAFileAndFindsNoMissingOne) {
  char path[] = "/tmp/image_test_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  const std::string content("a\0b\n", 4);
  std::ofstream(path) << content;
  std::string bytes;
  EXPECT_EQ(ReadImageFile(path, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, content);
  // Larger than what is read at once, and a multiple of it.
  const std::string large(256 << 10, 'x');
  std::ofstream(path) << large;
  EXPECT_EQ(ReadImageFile(path, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, large);
  std::ofstream(path).close();
  EXPECT_EQ(ReadImageFile(path, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, "");
  unlink(path);
  EXPECT_EQ(ReadImageFile(path, &bytes), CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_EQ(ReadImageFile("/tmp", &bytes), CUDA_ERROR_FILE_NOT_FOUND);
  // It can be opened, and the reading fails.
  EXPECT_EQ(ReadImageFile("/proc/self/mem", &bytes), CUDA_ERROR_FILE_NOT_FOUND);
}

}  // namespace
}  // namespace warpline::stub
