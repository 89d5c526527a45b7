#include "transport/grpc/meter/http2_meter.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/testing/http2_frames.h"

namespace warpline::grpc_internal {
namespace {

using testing::Http2Frame;
using testing::kHttp2Preface;

enum Type : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
  kUnknown = 77,
};

class Http2MeterTest : public ::testing::Test {
 protected:
  Http2MeterTest() { EXPECT_TRUE(Receives(kHttp2Preface)); }

  bool Receives(const std::string& bytes) { return meter_.Received(bytes, now_) == nullptr; }
  void Sends(const std::string& bytes) { meter_.Sent(bytes, now_); }

  // Returns how many of a frame are taken before it is one too many; `most` if none is.
  int Taken(const std::string& frame, int most) {
    for (int i = 0; i < most; ++i) {
      if (!Receives(frame)) return i;
    }
    return most;
  }

  // Opens a stream and resets it.
  bool Abandons(Http2Meter* meter, uint32_t stream) const {
    return meter->Received(Http2Frame(kHeaders, 4, stream, "headers"), now_) == nullptr &&
           meter->Received(Http2Frame(kReset, 0, stream, "code"), now_) == nullptr;
  }

  absl::Time now_ = absl::UnixEpoch();
  AbandonedStreams all_;
  UnreadBytes unread_;
  Http2Meter meter_{&all_, &unread_};
};

TEST_F(Http2MeterTest, StreamsThatAreResetAreAFlood) {
  int taken = 0;
  for (uint32_t stream = 1; Abandons(&meter_, stream); stream += 2) ++taken;
  EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostAbandoned));
  EXPECT_STREQ(meter_.Received("", now_), "streams that it resets, breaks or leaves");
}

TEST_F(Http2MeterTest, SomeAreForgivenWithTime) {
  uint32_t stream = 1;
  for (int second = 0; second < 100; ++second, now_ += absl::Seconds(1)) {
    for (int i = 0; i < 10; ++i, stream += 2) ASSERT_TRUE(Abandons(&meter_, stream));
  }
}

// The server ends a stream that breaks the protocol ("MadeYouReset").
TEST_F(Http2MeterTest, StreamsThatTheServerResetsCount) {
  int taken = 0;
  for (uint32_t stream = 1; Receives(Http2Frame(kHeaders, 4, stream, "headers")); stream += 2) {
    Sends(Http2Frame(kReset, 0, stream, "code"));
    ++taken;
    ASSERT_LT(taken, 1000);
  }
  EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostAbandoned) + 1);
}

TEST_F(Http2MeterTest, CallsThatAreAnsweredAreNone) {
  for (uint32_t stream = 1; stream < 20000; stream += 2) {
    ASSERT_TRUE(Receives(Http2Frame(kHeaders, 4, stream, "headers")));
    ASSERT_TRUE(Receives(Http2Frame(kData, 1, stream, "request")));
    Sends(Http2Frame(kHeaders, 4, stream, "headers"));
    Sends(Http2Frame(kData, 0, stream, "answer"));
    Sends(Http2Frame(kHeaders, 5, stream, "trailers"));
    // As after an answer that came before the request's end.
    if (stream % 100 == 1) {
      Sends(Http2Frame(kReset, 0, stream, "code"));
    }
  }
  EXPECT_EQ(meter_.opened(), 10000u);
}

TEST_F(Http2MeterTest, FramesThatCarryNothingAreAFlood) {
  for (const std::string& frame :
       {Http2Frame(kSettings, 0, 0), Http2Frame(kPing, 0, 0, "12345678"),
        Http2Frame(kPriority, 0, 1, "fffff"), Http2Frame(kReset, 0, 1, "code"),
        Http2Frame(kContinuation, 0, 1, "more"), Http2Frame(kData, 0, 1),
        Http2Frame(kData, 8, 1, std::string(1, '\0')), Http2Frame(kGoAway, 0, 0, "12345678"),
        Http2Frame(kHeaders, 4, 0, "trailers"), Http2Frame(kUnknown, 0, 0)}) {
    Http2Meter meter(&all_, &unread_);
    int taken = 0;
    ASSERT_EQ(meter.Received(kHttp2Preface, now_), nullptr);
    while (meter.Received(frame, now_) == nullptr && taken < 100000) ++taken;
    EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostIdle)) << static_cast<int>(frame[3]);
  }
}

TEST_F(Http2MeterTest, AcknowledgementsAreAFloodUnlessTheyAreEarned) {
  const int most = static_cast<int>(Http2Meter::kMostAcks);
  for (int i = 0; i < 10 * most; ++i) {
    ASSERT_TRUE(Receives(Http2Frame(kWindowUpdate, 0, i % 2, "size")));
    Sends(Http2Frame(kData, 0, 1, "answer"));
  }
  EXPECT_EQ(Taken(Http2Frame(kWindowUpdate, 0, 0, "size"), 10 * most), most);
  Http2Meter other(&all_, &unread_);
  ASSERT_EQ(other.Received(kHttp2Preface, now_), nullptr);
  int taken = 0;
  while (other.Received(Http2Frame(taken % 2 == 0 ? kPing : kSettings, 1, 0), now_) == nullptr)
    ++taken;
  EXPECT_EQ(taken, most);
}

TEST_F(Http2MeterTest, DataIsNoFlood) {
  ASSERT_TRUE(Receives(Http2Frame(kHeaders, 4, 1, "headers")));
  EXPECT_EQ(Taken(Http2Frame(kData, 0, 1, "x"), 100000), 100000);
}

TEST_F(Http2MeterTest, OpenStreamsAreBounded) {
  uint32_t stream = 1;
  while (Receives(Http2Frame(kHeaders, 4, stream, "headers")) && stream < 10000) stream += 2;
  EXPECT_EQ(stream, 2 * Http2Meter::kMostOpen + 1);
}

TEST_F(Http2MeterTest, BytesComeInPiecesOfAnySize) {
  std::string bytes;
  for (uint32_t stream = 1; stream < 2 * 99; stream += 2) {
    bytes += Http2Frame(kHeaders, 4, stream, std::string(stream * 7, 'h')) +
             Http2Frame(kReset, 0, stream, "code");
  }
  for (const char byte : bytes) ASSERT_TRUE(Receives(std::string(1, byte)));
  EXPECT_EQ(meter_.opened(), 99u);
  EXPECT_TRUE(Abandons(&meter_, 1001));
  EXPECT_FALSE(Abandons(&meter_, 1003));
}

// However many connections share in it. One that abandons a few goes on all the same.
TEST_F(Http2MeterTest, AllConnectionsTogetherAreBounded) {
  int taken = 0;
  for (int connection = 0; connection < 1000; ++connection) {
    Http2Meter meter(&all_, &unread_);
    ASSERT_EQ(meter.Received(kHttp2Preface, now_), nullptr);
    for (uint32_t stream = 1; Abandons(&meter, stream); stream += 2) ++taken;
  }
  const int free = static_cast<int>(Http2Meter::kAlwaysAbandoned);
  EXPECT_LE(taken, static_cast<int>(AbandonedStreams::kMost) + 1000 * free);
  EXPECT_GE(taken, static_cast<int>(AbandonedStreams::kMost));
  for (uint32_t stream = 1; stream < 2u * free; stream += 2) {
    EXPECT_TRUE(Abandons(&meter_, stream));
  }
}

// There is nobody to cut any more, so they are counted when they are opened.
TEST_F(Http2MeterTest, StreamsThatEndWithTheirConnectionCount) {
  int opened = 0;
  for (int connection = 0; connection < 1000; ++connection) {
    Http2Meter meter(&all_, &unread_);
    ASSERT_EQ(meter.Received(kHttp2Preface, now_), nullptr);
    uint32_t stream = 1;
    while (stream < 32 &&
           meter.Received(Http2Frame(kHeaders, 4, stream, "headers"), now_) == nullptr) {
      stream += 2;
      ++opened;
    }
  }
  const int free = static_cast<int>(Http2Meter::kAlwaysAbandoned);
  EXPECT_LE(opened, static_cast<int>(AbandonedStreams::kMost) + 1000 * free);
  now_ += absl::Seconds(1);
  EXPECT_TRUE(Receives(Http2Frame(kHeaders, 4, 1, "headers")));
}

// Calls that are answered give back what they took, however many there are.
TEST_F(Http2MeterTest, CallsOfManyConnectionsAreNone) {
  for (int connection = 0; connection < 1000; ++connection) {
    Http2Meter meter(&all_, &unread_);
    ASSERT_EQ(meter.Received(kHttp2Preface, now_), nullptr);
    for (uint32_t stream = 1; stream < 32; stream += 2) {
      ASSERT_EQ(meter.Received(Http2Frame(kHeaders, 4, stream, "headers"), now_), nullptr);
    }
    for (uint32_t stream = 1; stream < 32; stream += 2) {
      meter.Sent(Http2Frame(kHeaders, 5, stream, "trailers"), now_);
    }
  }
}

class UnreadBytesTest : public Http2MeterTest {
 protected:
  static constexpr int64_t kPiece = 16 << 10;

  // Opens a stream, on which `pieces` come. Returns false when the connection is cut.
  bool Sends16K(Http2Meter* meter, uint32_t stream, int64_t pieces) const {
    const std::string data = Http2Frame(kData, 0, stream, std::string(kPiece, 'x'));
    if (meter->Received(Http2Frame(kHeaders, 4, stream, "headers"), now_) != nullptr) return false;
    for (int64_t i = 0; i < pieces; ++i) {
      if (meter->Received(data, now_) != nullptr) return false;
    }
    return true;
  }

  static std::string Window(int64_t bytes) {
    const auto byte = [&](int at) { return static_cast<char>(bytes >> at & 0xff); };
    return {byte(24), byte(16), byte(8), byte(0)};
  }
};

TEST_F(UnreadBytesTest, BytesThatNobodyReadsAreBounded) {
  EXPECT_TRUE(Sends16K(&meter_, 1, UnreadBytes::kMost / kPiece));
  EXPECT_FALSE(Sends16K(&meter_, 3, 1));
  EXPECT_STREQ(meter_.Received("", now_), "bytes that it sends before they are asked for");
}

TEST_F(UnreadBytesTest, BytesThatAreReadAreNot) {
  ASSERT_TRUE(Sends16K(&meter_, 1, 0));
  for (int64_t i = 0; i < 2 * UnreadBytes::kMost / kPiece; ++i) {
    ASSERT_TRUE(Receives(Http2Frame(kData, 0, 1, std::string(kPiece, 'x'))));
    Sends(Http2Frame(kWindowUpdate, 0, 1, Window(kPiece)));
  }
}

TEST_F(UnreadBytesTest, AStreamThatEndsHasNone) {
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    ASSERT_TRUE(Sends16K(&meter_, stream, UnreadBytes::kMost / kPiece / 2)) << stream;
    Sends(Http2Frame(kHeaders, 5, stream, "trailers"));
  }
}

TEST_F(UnreadBytesTest, AConnectionThatEndsHasNone) {
  for (int i = 0; i < 10; ++i) {
    Http2Meter meter(&all_, &unread_);
    ASSERT_EQ(meter.Received(kHttp2Preface, now_), nullptr);
    ASSERT_TRUE(Sends16K(&meter, 1, UnreadBytes::kMost / kPiece / 2));
  }
  EXPECT_FALSE(unread_.TooMany());
}

// However many connections share in them. One with a few goes on all the same.
TEST_F(UnreadBytesTest, AllConnectionsTogetherAreBounded) {
  const int64_t free = Http2Meter::kAlwaysUnread / kPiece;
  std::vector<std::unique_ptr<Http2Meter>> meters;
  for (int i = 0; i < 1000; ++i) {
    meters.push_back(std::make_unique<Http2Meter>(&all_, &unread_));
    ASSERT_EQ(meters.back()->Received(kHttp2Preface, now_), nullptr);
    EXPECT_TRUE(Sends16K(meters.back().get(), 1, free));
  }
  EXPECT_TRUE(unread_.TooMany());
  EXPECT_TRUE(Sends16K(&meter_, 1, free));
  EXPECT_FALSE(Sends16K(&meter_, 3, 1));
}

// Its window is what a session needs.
TEST_F(UnreadBytesTest, AConnectionWithASessionIsNotCounted) {
  meter_.SetAdmitted(true);
  EXPECT_TRUE(Sends16K(&meter_, 1, 2 * UnreadBytes::kMost / kPiece));
  EXPECT_FALSE(unread_.TooMany());
  meter_.SetAdmitted(false);
  EXPECT_FALSE(Receives(Http2Frame(kPing, 0, 0, "12345678")));
}

}  // namespace
}  // namespace warpline::grpc_internal
