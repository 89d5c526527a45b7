// A folder for tests that look into files.
#ifndef WARPLINE_COMMON_TIER_FOLDER_FIXTURE_H_
#define WARPLINE_COMMON_TIER_FOLDER_FIXTURE_H_

#include <stdlib.h>

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace warpline::tier {

// Each test has a folder of its own, which is empty.
class FolderFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/tier-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  // Returns the file's path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string folder_;
};

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_FOLDER_FIXTURE_H_
