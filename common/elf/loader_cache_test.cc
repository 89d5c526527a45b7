#include "common/elf/loader_cache.h"

#include <random>
#include <string>
#include <vector>

#include "common/elf/cache_bytes.h"
#include "gtest/gtest.h"

namespace warpline::elf {
namespace {

using Paths = std::vector<std::string>;

constexpr uint64_t kNewer = uint64_t{1} << 62;
const std::string kCache = CacheBytes({{"libx.so.1", "/v3/libx.so.1", 0x0303, kNewer},
                                       {"libx.so.1", "/lib/libx.so.1"},
                                       {"libx.so.1", "/lib32/libx.so.1", 0x0003},
                                       {"libx.so.10", "/lib/libx.so.10"},
                                       {"librelative.so", "lib/librelative.so"}});

TEST(LoaderCacheTest, FindsByNameThatOfAnyProcessorFirst) {
  const LoaderCache cache(kCache);
  EXPECT_EQ(cache.Find("libx.so.1"), (Paths{"/lib/libx.so.1", "/v3/libx.so.1"}));
  EXPECT_EQ(cache.Find("libx.so.10"), Paths{"/lib/libx.so.10"});
  EXPECT_EQ(cache.Find("libx.so"), Paths());
  EXPECT_EQ(cache.Find("librelative.so"), Paths());
  EXPECT_EQ(cache.Find(""), Paths());
}

TEST(LoaderCacheTest, OtherFilesHaveNoLibraries) {
  std::string big_endian = kCache, older = kCache;
  big_endian[28] = 3;
  older[19] = '0';
  for (const std::string& bytes : {std::string(), std::string("text"), kCache.substr(0, 47),
                                   kCache.substr(0, 100), big_endian, older}) {
    EXPECT_EQ(LoaderCache(bytes).Find("libx.so.1"), Paths());
  }
}

TEST(LoaderCacheTest, APathWithoutAnEndIsNone) {
  const std::string cache = CacheBytes({{"libx.so.1", "/lib/libx.so.1"}});
  EXPECT_EQ(LoaderCache(cache.substr(0, cache.size() - 1)).Find("libx.so.1"), Paths());
}

TEST(LoaderCacheTest, ChangedCachesDoNoHarm) {
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string changed = kCache.substr(0, kCache.size() - random() % 64);
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_LE(LoaderCache(changed).Find("libx.so.1").size(), LoaderCache::kMostPaths);
  }
}

}  // namespace
}  // namespace warpline::elf
