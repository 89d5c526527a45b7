#include "server/worker/executors/image.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

TEST(ImageTest, ASessionHasSoManyDescriptorsAndThenOtherMemory) {
  ImageFiles files;
  std::vector<std::unique_ptr<Image>> images;
  for (int i = 0; i < ImageFiles::kMost; ++i) {
    images.push_back(std::make_unique<Image>(4, &files));
    EXPECT_GE(images.back()->fd(), 0) << i;
  }
  images.push_back(std::make_unique<Image>(4, &files));
  EXPECT_LT(images.back()->fd(), 0);
  ASSERT_TRUE(images.back()->Append("text"));
  EXPECT_EQ(images.back()->bytes(), "text");
  // Neither that one nor one without a file gives one back.
  images.pop_back();
  EXPECT_LT(Image(4, nullptr).fd(), 0);
  EXPECT_LT(Image(4, &files).fd(), 0);
  images.pop_back();
  EXPECT_GE(Image(4, &files).fd(), 0);
}

}  // namespace
}  // namespace warpline::worker
