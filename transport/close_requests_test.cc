#include "transport/close_requests.h"

#include <gtest/gtest.h>

namespace warpline {
namespace {

TEST(CloseRequestsTest, WhatWasAskedForIsTakenOnce) {
  CloseRequests requests;
  EXPECT_FALSE(requests.any());
  requests.Close(absl::OkStatus());
  requests.Cancel();
  EXPECT_TRUE(requests.any());
  const CloseRequests::Taken taken = requests.Take();
  EXPECT_TRUE(taken.cancel);
  EXPECT_EQ(taken.close, absl::OkStatus());
  EXPECT_FALSE(requests.any());
  EXPECT_FALSE(requests.Take().cancel);
  EXPECT_FALSE(requests.Take().close.has_value());
}

TEST(CloseRequestsTest, AnErrorOvertakesAnOrderlyClose) {
  CloseRequests requests;
  requests.Close(absl::OkStatus());
  requests.Close(absl::DataLossError("broken"));
  EXPECT_EQ(requests.Take().close, absl::DataLossError("broken"));
}

TEST(CloseRequestsTest, TheFirstErrorStands) {
  CloseRequests requests;
  requests.Close(absl::DataLossError("first"));
  requests.Close(absl::InternalError("second"));
  requests.Close(absl::OkStatus());
  EXPECT_EQ(requests.Take().close, absl::DataLossError("first"));
}

}  // namespace
}  // namespace warpline
