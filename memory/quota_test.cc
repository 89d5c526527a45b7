#include "memory/quota.h"

#include <utility>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(QuotaTest, ReservationEndsWithItsScope) {
  auto quota = Quota::Create(100);
  {
    const Reservation held = quota->Reserve(60, 60, 1);
    EXPECT_EQ(held.bytes(), 60u);
    EXPECT_EQ(quota->used_bytes(), 60u);
  }
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST(QuotaTest, GivesWhatIsLeftInWholeUnits) {
  auto quota = Quota::Create(100);
  const Reservation first = quota->Reserve(45, 45, 1);
  const Reservation rest = quota->Reserve(10, 100, 10);
  EXPECT_EQ(rest.bytes(), 50u);
}

TEST(QuotaTest, LessThanMinimumReservesNothing) {
  auto quota = Quota::Create(100);
  EXPECT_EQ(quota->Reserve(101, 200, 1).bytes(), 0u);
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST(QuotaTest, ShrinkingGivesBackTheRest) {
  auto quota = Quota::Create(100);
  Reservation held = quota->Reserve(80, 80, 1);
  held.ShrinkTo(30);
  EXPECT_EQ(quota->used_bytes(), 30u);
  held.ShrinkTo(50);
  EXPECT_EQ(held.bytes(), 30u);
}

TEST(QuotaTest, MovedReservationCountsOnce) {
  auto quota = Quota::Create(100);
  Reservation a = quota->Reserve(40, 40, 1);
  Reservation b = quota->Reserve(20, 20, 1);
  b = std::move(a);
  EXPECT_EQ(quota->used_bytes(), 40u);
  EXPECT_EQ(b.bytes(), 40u);
}

TEST(QuotaTest, ReservationOutlivesTheOwnersHoldOnTheQuota) {
  auto quota = Quota::Create(100);
  Reservation held = quota->Reserve(40, 40, 1);
  quota.reset();
  held.ShrinkTo(0);
  EXPECT_EQ(held.bytes(), 0u);
}

TEST(QuotaTest, HoldsAreSplitAndMerged) {
  const auto quota = Quota::Create(10);
  Reservation whole = quota->Reserve(8, 8, 1);
  Reservation part = whole.Split(3);
  EXPECT_EQ(whole.bytes(), 5u);
  EXPECT_EQ(part.bytes(), 3u);
  EXPECT_EQ(quota->used_bytes(), 8u);
  EXPECT_EQ(part.Split(9).bytes(), 3u);
  EXPECT_EQ(quota->used_bytes(), 5u);
  Reservation sum;
  sum.Merge(std::move(whole));
  sum.Merge(quota->Reserve(2, 2, 1));
  EXPECT_EQ(sum.bytes(), 7u);
  EXPECT_EQ(quota->used_bytes(), 7u);
  sum.ShrinkTo(0);
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST(QuotaTest, PiecesAreCountedForThemselves) {
  const auto quota = Quota::Create(100, 2);
  Reservation pieces = quota->pieces()->Reserve(1, 3, 1);
  EXPECT_EQ(pieces.bytes(), 2u);
  EXPECT_EQ(quota->used_bytes(), 0u);
  EXPECT_EQ(quota->pieces()->Reserve(1, 1, 1).bytes(), 0u);
  pieces.ShrinkTo(1);
  EXPECT_EQ(quota->pieces()->Reserve(1, 1, 1).bytes(), 1u);
  EXPECT_EQ(Quota::Create(100)->pieces()->limit_bytes(), Quota::kUnbounded);
}

TEST(QuotaTest, APartCountsForTheWholeAsWell) {
  const auto whole = Quota::Create(100);
  const auto first = Quota::CreateWithin(whole, 80);
  const auto second = Quota::CreateWithin(whole, 80);
  Reservation held = first->Reserve(10, 70, 10);
  EXPECT_EQ(held.bytes(), 70u);
  EXPECT_EQ(whole->used_bytes(), 70u);
  EXPECT_EQ(&second->scarcer(), whole.get());
  EXPECT_EQ(second->Reserve(40, 40, 1).bytes(), 0u);
  EXPECT_EQ(second->used_bytes(), 0u);
  Reservation rest = second->Reserve(10, 80, 10);
  EXPECT_EQ(rest.bytes(), 30u);
  EXPECT_EQ(second->used_bytes(), 30u);
  EXPECT_EQ(whole->used_bytes(), 100u);
  held.ShrinkTo(20);
  EXPECT_EQ(first->used_bytes(), 20u);
  EXPECT_EQ(whole->used_bytes(), 50u);
  Reservation moved = held.Split(5);
  held = Reservation();
  EXPECT_EQ(whole->used_bytes(), 35u);
  EXPECT_TRUE(first->IsOf(*whole));
  EXPECT_TRUE(first->IsOf(*first));
  EXPECT_FALSE(first->IsOf(*second));
}

TEST(QuotaTest, WhatIsLeftOfAPartThatEndedStaysOnTheWhole) {
  const auto whole = Quota::Create(100);
  Reservation left;
  {
    const auto part = Quota::CreateWithin(whole, 60);
    left = part->Reserve(60, 60, 1);
  }
  EXPECT_EQ(Quota::CreateWithin(whole, 60)->Reserve(41, 60, 1).bytes(), 0u);
  left = Reservation();
  EXPECT_EQ(whole->used_bytes(), 0u);
}

}  // namespace
}  // namespace warpline
