#include "common/fatbin/container_scan.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "common/fatbin/fatbin.h"
#include "gtest/gtest.h"

namespace warpline::fatbin {
namespace {

// A container that says that it has `claimed` bytes of entries, with `entries` behind its header.
std::string Container(uint64_t claimed, const std::string& entries) {
  std::string bytes(16, '\0');
  const auto put = [&bytes](size_t at, auto value) {
    bytes.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(0, uint32_t{0xBA55ED50});
  put(4, uint16_t{1});
  put(6, uint16_t{16});
  put(8, claimed);
  return bytes + entries;
}

std::string Container(const std::string& entries) { return Container(entries.size(), entries); }

std::vector<std::string> Scanned(const std::string& file) {
  std::vector<std::string> found;
  const auto read = [&file](uint64_t offset, uint64_t bytes) {
    return offset > file.size() ? std::string() : file.substr(offset, bytes);
  };
  ScanContainers(read, 0, file.size(),
                 [&found](std::string_view container) { found.emplace_back(container); });
  return found;
}

std::vector<std::string> Found(const std::string& file) {
  std::vector<std::string> found;
  for (const std::string_view container : FindContainers(file)) found.emplace_back(container);
  return found;
}

TEST(ContainerScanTest, FindsWhatASearchOfTheWholeFileFinds) {
  const std::string block(size_t{1} << 20, 'x');
  const std::string small = Container("entries");
  EXPECT_EQ(Scanned(""), std::vector<std::string>());
  EXPECT_EQ(Scanned(block), std::vector<std::string>());
  EXPECT_EQ(Scanned(small + Container(block + block) + small + "....").size(), 3u);
  // At each place around the end of a block.
  for (size_t before = block.size() - 30; before < block.size() + 5; ++before) {
    std::string file(before, 'x');
    file += small + ".";
    file += small;
    EXPECT_EQ(Scanned(file).size(), 2u) << before;
    EXPECT_EQ(Scanned(file), Found(file)) << before;
  }
}

TEST(ContainerScanTest, ChangedFilesGiveTheSame) {
  std::mt19937 random(1);
  std::string whole;
  for (int i = 0; i < 50; ++i) whole += Container(std::string(random() % 60, 'e')) + "..";
  for (int i = 0; i < 2000; ++i) {
    std::string file = whole.substr(0, whole.size() - random() % 100);
    for (int j = 0; j < 20; ++j) file[random() % file.size()] = static_cast<char>(random());
    ASSERT_EQ(Scanned(file), Found(file)) << i;
  }
}

TEST(ContainerScanTest, WhatIsTooLargeIsCountedAndNotRead) {
  const std::string head = Container(kMostContainerBytes, "");
  const uint64_t size = 2 * kMostContainerBytes;
  uint64_t most = 0;
  const auto read = [&](uint64_t offset, uint64_t bytes) {
    most = std::max(most, bytes);
    std::string text(std::min(bytes, size - offset), '\0');
    if (offset == 0) text.replace(0, head.size(), head);
    return text;
  };
  const ContainerCount count =
      ScanContainers(read, 0, size, [](std::string_view) { ADD_FAILURE(); });
  EXPECT_EQ(count.read, 0u);
  EXPECT_EQ(count.too_large, 1u);
  EXPECT_LT(most, size_t{8} << 20);
}

TEST(ContainerScanTest, AFileThatIsCutMeanwhileEndsTheScan) {
  const ContainerCount count = ScanContainers([](uint64_t, uint64_t) { return std::string(); }, 0,
                                              uint64_t{1} << 40, [](std::string_view) {});
  EXPECT_EQ(count.read, 0u);
}

}  // namespace
}  // namespace warpline::fatbin
