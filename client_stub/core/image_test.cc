#include "client_stub/core/image.h"

#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

std::string Container(size_t entries_bytes) {
  std::string container(16 + entries_bytes, 'x');
  const uint32_t magic = 0xba55ed50;
  const uint16_t version = 1, header_bytes = 16;
  const uint64_t bytes = entries_bytes;
  std::memcpy(&container[0], &magic, 4);
  std::memcpy(&container[4], &version, 2);
  std::memcpy(&container[6], &header_bytes, 2);
  std::memcpy(&container[8], &bytes, 8);
  return container;
}

TEST(FindImageTest, ContainerIsAsLongAsItsHeaderSays) {
  const std::string container = Container(100);
  std::string_view bytes;
  ASSERT_EQ(FindImage(container.data(), &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes.data(), container.data());
  EXPECT_EQ(bytes.size(), container.size());
}

TEST(FindImageTest, WrapperLeadsToItsContainer) {
  const std::string container = Container(32);
  for (const uint32_t version : {1u, 2u}) {
    struct {
      uint32_t magic, version;
      const void* data;
      const void* more;
    } wrapper = {0x466243b1, version, container.data(), nullptr};
    std::string_view bytes;
    ASSERT_EQ(FindImage(&wrapper, &bytes), CUDA_SUCCESS);
    EXPECT_EQ(bytes.data(), container.data());
    EXPECT_EQ(bytes.size(), container.size());
  }
}

TEST(FindImageTest, TextIsPtxUpToItsEnd) {
  std::string_view bytes;
  const char ptx[] = "//\n.version 9.0\n.target sm_75\n";
  ASSERT_EQ(FindImage(ptx, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes.size(), sizeof(ptx));
  for (const char* no_ptx : {"hello, device", "a", "ab", "abc"}) {
    EXPECT_EQ(FindImage(no_ptx, &bytes), CUDA_ERROR_INVALID_IMAGE) << no_ptx;
  }
}

TEST(FindImageTest, ElfEndsWithItsLastPart) {
  std::vector<char> image(4096, 0);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ehsize = sizeof(header);
  header.e_shoff = 512;
  header.e_shnum = 1;
  header.e_shentsize = sizeof(Elf64_Shdr);
  Elf64_Shdr section = {};
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = 1000;
  section.sh_size = 234;
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + 512, &section, sizeof(section));
  std::string_view bytes;
  ASSERT_EQ(FindImage(image.data(), &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes.size(), 1234u);
}

TEST(FindImageTest, AnythingElseIsNoImage) {
  std::string_view bytes;
  EXPECT_EQ(FindImage(nullptr, &bytes), CUDA_ERROR_INVALID_VALUE);
  const unsigned char noise[64] = {0xde, 0xad, 0xbe, 0xef};
  EXPECT_EQ(FindImage(noise, &bytes), CUDA_ERROR_INVALID_IMAGE);
  const unsigned char zeros[64] = {};
  EXPECT_EQ(FindImage(zeros, &bytes), CUDA_ERROR_INVALID_IMAGE);
}

TEST(ReadImageFileTest, EndsTextWithNulAndFindsNoMissingFile) {
  char path[] = "/tmp/image_test_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << ".version 9.0";
  std::string bytes;
  ASSERT_EQ(ReadImageFile(path, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, std::string(".version 9.0\0", 13));
  unlink(path);
  EXPECT_EQ(ReadImageFile(path, &bytes), CUDA_ERROR_FILE_NOT_FOUND);
}

}  // namespace
}  // namespace warpline::stub
