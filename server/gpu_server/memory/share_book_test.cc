#include "server/gpu_server/memory/share_book.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/session_memory.h"

namespace warpline::server {
namespace {

class ShareBookTest : public testing::Test {
 protected:
  static std::shared_ptr<SessionMemory> Session() {
    return std::make_shared<SessionMemory>(SessionMemoryOptions{}, Quota::Create(1), MemoryLinks());
  }
  std::string Add(const std::shared_ptr<SessionMemory>& owner, uint64_t handle, uint64_t va = 0,
                  uint64_t bytes = 0) {
    Offer offer;
    offer.domain = "lease";
    offer.owner = owner;
    offer.handle = handle;
    offer.va = va;
    offer.bytes = bytes;
    const auto token = book_.Add(std::move(offer));
    return token.ok() ? *token : "";
  }
  bool Has(const std::string& token) { return book_.Find(token, "lease").ok(); }

  ShareBook book_;
  const std::shared_ptr<SessionMemory> owner_ = Session();
  const std::shared_ptr<SessionMemory> other_ = Session();
};

TEST_F(ShareBookTest, MemoryKeepsItsTokenAndEventsHaveTheirOwn) {
  EXPECT_EQ(Add(owner_, 1, 0, 2), Add(owner_, 1, 0, 2));
  EXPECT_EQ(Add(owner_, 0, 4096, 2), Add(owner_, 0, 4096, 2));
  EXPECT_NE(Add(owner_, 0, 4096, 2), Add(owner_, 0, 4096, 4));
  EXPECT_NE(Add(owner_, 1, 0, 2), Add(other_, 1, 0, 2));
  EXPECT_NE(Add(owner_, 0), Add(owner_, 0));
}

TEST_F(ShareBookTest, RangesThatOverlapAreToldAsOne) {
  Add(owner_, 0, 40, 10);
  Add(owner_, 0, 0, 30);
  Add(owner_, 0, 4, 2);
  Add(owner_, 0, 20, 15);
  Add(owner_, 0, 50, 5);
  Add(other_, 0, 70, 5);
  Add(owner_, 3, 0, 2);
  const absl::Span<const ArenaRange> ranges = book_.OfferedRanges(owner_.get());
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].base, 0u);
  EXPECT_EQ(ranges[0].bytes, 35u);
  EXPECT_EQ(ranges[1].base, 40u);
  EXPECT_EQ(ranges[1].bytes, 15u);
  const std::string more = Add(owner_, 0, 100, 5);
  EXPECT_EQ(book_.OfferedRanges(owner_.get()).size(), 3u);
  book_.Remove(more, owner_.get());
  EXPECT_EQ(book_.OfferedRanges(owner_.get()).size(), 2u);
  book_.RemoveRange(owner_.get(), 0, 40);
  EXPECT_EQ(book_.OfferedRanges(owner_.get()).size(), 1u);
  EXPECT_TRUE(book_.OffersHandle(owner_.get(), 3));
  EXPECT_FALSE(book_.OffersHandle(other_.get(), 3));
  EXPECT_TRUE(book_.OfferedRanges(Session().get()).empty());
}

TEST_F(ShareBookTest, OffersAreTakenBackByTheirOwnerAlone) {
  const std::string event = Add(owner_, 0);
  book_.Remove(event, other_.get());
  EXPECT_TRUE(Has(event));
  book_.Remove(event, owner_.get());
  EXPECT_FALSE(Has(event));
  book_.Remove(event, owner_.get());
}

TEST_F(ShareBookTest, ASessionOffersAnyNumberOfEventsOneAfterTheOther) {
  for (size_t i = 0; i < 2 * ShareBook::kMostOfOneSession; ++i) {
    const std::string event = Add(owner_, 0);
    ASSERT_FALSE(event.empty());
    book_.Remove(event, owner_.get());
  }
  for (size_t i = 0; i < ShareBook::kMostOfOneSession; ++i) ASSERT_FALSE(Add(owner_, 0).empty());
  EXPECT_TRUE(Add(owner_, 0).empty());
  EXPECT_FALSE(Add(other_, 0).empty());
}

TEST_F(ShareBookTest, OffersEndWithTheMemory) {
  const std::string handle = Add(owner_, 1, 0, 2);
  const std::string low = Add(owner_, 0, 4096, 4096);
  const std::string high = Add(owner_, 0, 16384, 4096);
  const std::string others = Add(other_, 0, 4096, 4096);
  book_.RemoveHandle(owner_.get(), 2);
  EXPECT_TRUE(Has(handle));
  book_.RemoveHandle(owner_.get(), 1);
  EXPECT_FALSE(Has(handle));
  book_.RemoveRange(owner_.get(), 8000, 8192);
  EXPECT_FALSE(Has(low));
  EXPECT_TRUE(Has(high));
  EXPECT_TRUE(Has(others));
}

TEST_F(ShareBookTest, OffersEndWithTheSession) {
  const std::string event = Add(owner_, 0);
  const std::string handle = Add(owner_, 1, 0, 2);
  const std::string range = Add(owner_, 0, 4096, 4096);
  const std::string others = Add(other_, 0);
  book_.RemoveAllOf(owner_.get());
  EXPECT_FALSE(Has(event) || Has(handle) || Has(range));
  EXPECT_TRUE(Has(others));
}

}  // namespace
}  // namespace warpline::server
