#include "scheduler/page/assets.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::scheduler::page {
namespace {

TEST(AssetsTest, AreSmall) {
  size_t bytes = 0;
  for (const Asset& asset : Assets()) bytes += asset.content.size();
  EXPECT_GT(bytes, 10000u);
  EXPECT_LE(bytes, 200000u);
}

TEST(AssetsTest, AreOnceEachWithTheirType) {
  std::set<absl::string_view> paths;
  for (const Asset& asset : Assets()) {
    EXPECT_TRUE(paths.insert(asset.path).second) << asset.path;
    EXPECT_FALSE(asset.content.empty()) << asset.path;
    EXPECT_FALSE(asset.type.empty()) << asset.path;
    EXPECT_EQ(asset.etag.size(), 34u) << asset.path;
  }
  EXPECT_EQ(paths.count("/"), 1u);
}

// What the content security policy would stop anyway, and what would get round text.
TEST(AssetsTest, NothingComesFromElsewhereAndNothingIsParsed) {
  for (const Asset& asset : Assets()) {
    for (const char* const word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                   "eval(", "new Function", "https://", "http://", "javascript:"}) {
      if (asset.path == "/icon.svg" && absl::StartsWith(word, "http://")) continue;
      EXPECT_FALSE(absl::StrContains(asset.content, word)) << asset.path << ": " << word;
    }
    if (asset.path == "/") {
      EXPECT_FALSE(absl::StrContains(asset.content, "<style"));
      EXPECT_FALSE(absl::StrContains(asset.content, " style="));
      EXPECT_FALSE(absl::StrContains(asset.content, " onclick="));
    }
  }
}

TEST(AssetsTest, WhatAFileNamesIsThere) {
  std::set<std::string> paths;
  for (const Asset& asset : Assets()) paths.emplace(asset.path);
  for (const Asset& asset : Assets()) {
    for (size_t at = 0; (at = asset.content.find("from \"./", at)) != absl::string_view::npos;) {
      at += 8;
      const std::string name(asset.content.substr(at, asset.content.find('"', at) - at));
      EXPECT_EQ(paths.count(absl::StrCat("/", name)), 1u) << asset.path << " needs " << name;
    }
  }
}

}  // namespace
}  // namespace warpline::scheduler::page
