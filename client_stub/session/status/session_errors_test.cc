#include "client_stub/session/status/session_errors.h"

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(SessionErrorsTest, TheFirstFailureIsDeferredAndTakenOnce) {
  SessionErrors errors;
  errors.Defer(3, CudaResult::kInvalidValue);
  errors.Defer(4, CudaResult::kInvalidHandle);
  EXPECT_EQ(errors.TakeDeferred(), CudaResult::kInvalidValue);
  EXPECT_EQ(errors.TakeDeferred(), CudaResult::kSuccess);
}

TEST(SessionErrorsTest, AFailureIsTakenByItsNumberAndLeavesThoseOfOthers) {
  SessionErrors errors;
  errors.Defer(3, CudaResult::kInvalidValue);
  errors.Defer(4, CudaResult::kOutOfMemory);
  EXPECT_EQ(errors.TakeFailureOf(5), CudaResult::kSuccess);
  EXPECT_EQ(errors.TakeFailureOf(0), CudaResult::kSuccess);
  EXPECT_EQ(errors.TakeFailureOf(4), CudaResult::kOutOfMemory);
  EXPECT_EQ(errors.TakeFailureOf(4), CudaResult::kSuccess);
  EXPECT_EQ(errors.TakeDeferred(), CudaResult::kInvalidValue);
}

TEST(SessionErrorsTest, WhatIsTakenByItsNumberIsNotDeferred) {
  SessionErrors errors;
  errors.Defer(3, CudaResult::kOutOfMemory);
  EXPECT_EQ(errors.TakeFailureOf(3), CudaResult::kOutOfMemory);
  EXPECT_EQ(errors.TakeDeferred(), CudaResult::kSuccess);
  errors.Defer(4, CudaResult::kInvalidValue);
  EXPECT_EQ(errors.TakeDeferred(), CudaResult::kInvalidValue);
}

TEST(SessionErrorsTest, TheLatestFailuresAreRemembered) {
  SessionErrors errors;
  for (uint64_t seq = 1; seq <= SessionErrors::kRemembered + 1; ++seq) {
    errors.Defer(seq, CudaResult::kOutOfMemory);
  }
  EXPECT_EQ(errors.TakeFailureOf(1), CudaResult::kSuccess);
  EXPECT_EQ(errors.TakeFailureOf(2), CudaResult::kOutOfMemory);
}

}  // namespace
}  // namespace warpline::stub
