#include "transport/grpc/meter/http2_meter.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::grpc_internal {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

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

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload = "") {
  const auto byte = [](uint32_t value, int shift) {
    return std::string(1, static_cast<char>(value >> shift & 0xff));
  };
  const auto size = static_cast<uint32_t>(payload.size());
  return absl::StrCat(byte(size, 16), byte(size, 8), byte(size, 0), byte(type, 0), byte(flags, 0),
                      byte(stream, 24), byte(stream, 16), byte(stream, 8), byte(stream, 0),
                      payload);
}

class Http2MeterTest : public testing::Test {
 protected:
  Http2MeterTest() { EXPECT_TRUE(Receives(kPreface)); }

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
    return meter->Received(Frame(kHeaders, 4, stream, "headers"), now_) == nullptr &&
           meter->Received(Frame(kReset, 0, stream, "code"), now_) == nullptr;
  }

  absl::Time now_ = absl::UnixEpoch();
  AbandonedStreams all_;
  Http2Meter meter_{&all_};
};

TEST_F(Http2MeterTest, StreamsThatAreResetAreAFlood) {
  int taken = 0;
  for (uint32_t stream = 1; Abandons(&meter_, stream); stream += 2) ++taken;
  EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostAbandoned));
  EXPECT_STREQ(meter_.Received("", now_), "streams that it resets or breaks");
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
  for (uint32_t stream = 1; Receives(Frame(kHeaders, 4, stream, "headers")); stream += 2) {
    Sends(Frame(kReset, 0, stream, "code"));
    ++taken;
    ASSERT_LT(taken, 1000);
  }
  EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostAbandoned) + 1);
}

TEST_F(Http2MeterTest, CallsThatAreAnsweredAreNone) {
  for (uint32_t stream = 1; stream < 20000; stream += 2) {
    ASSERT_TRUE(Receives(Frame(kHeaders, 4, stream, "headers")));
    ASSERT_TRUE(Receives(Frame(kData, 1, stream, "request")));
    Sends(Frame(kHeaders, 4, stream, "headers"));
    Sends(Frame(kData, 0, stream, "answer"));
    Sends(Frame(kHeaders, 5, stream, "trailers"));
    // As after an answer that came before the request's end.
    if (stream % 100 == 1) {
      Sends(Frame(kReset, 0, stream, "code"));
    }
  }
  EXPECT_EQ(meter_.opened(), 10000u);
}

TEST_F(Http2MeterTest, FramesThatCarryNothingAreAFlood) {
  for (const std::string& frame :
       {Frame(kSettings, 0, 0), Frame(kPing, 0, 0, "12345678"), Frame(kPriority, 0, 1, "fffff"),
        Frame(kReset, 0, 1, "code"), Frame(kContinuation, 0, 1, "more"), Frame(kData, 0, 1),
        Frame(kData, 8, 1, std::string(1, '\0')), Frame(kGoAway, 0, 0, "12345678"),
        Frame(kHeaders, 4, 0, "trailers"), Frame(kUnknown, 0, 0)}) {
    Http2Meter meter(&all_);
    int taken = 0;
    ASSERT_EQ(meter.Received(kPreface, now_), nullptr);
    while (meter.Received(frame, now_) == nullptr && taken < 100000) ++taken;
    EXPECT_EQ(taken, static_cast<int>(Http2Meter::kMostIdle)) << static_cast<int>(frame[3]);
  }
}

TEST_F(Http2MeterTest, AcknowledgementsAreAFloodUnlessTheyAreEarned) {
  const int most = static_cast<int>(Http2Meter::kMostAcks);
  for (int i = 0; i < 10 * most; ++i) {
    ASSERT_TRUE(Receives(Frame(kWindowUpdate, 0, i % 2, "size")));
    Sends(Frame(kData, 0, 1, "answer"));
  }
  EXPECT_EQ(Taken(Frame(kWindowUpdate, 0, 0, "size"), 10 * most), most);
  Http2Meter other(&all_);
  ASSERT_EQ(other.Received(kPreface, now_), nullptr);
  int taken = 0;
  while (other.Received(Frame(taken % 2 == 0 ? kPing : kSettings, 1, 0), now_) == nullptr) ++taken;
  EXPECT_EQ(taken, most);
}

TEST_F(Http2MeterTest, DataIsNoFlood) {
  ASSERT_TRUE(Receives(Frame(kHeaders, 4, 1, "headers")));
  EXPECT_EQ(Taken(Frame(kData, 0, 1, "x"), 100000), 100000);
}

TEST_F(Http2MeterTest, OpenStreamsAreBounded) {
  uint32_t stream = 1;
  while (Receives(Frame(kHeaders, 4, stream, "headers")) && stream < 10000) stream += 2;
  EXPECT_EQ(stream, 2 * Http2Meter::kMostOpen + 1);
}

TEST_F(Http2MeterTest, BytesComeInPiecesOfAnySize) {
  std::string bytes;
  for (uint32_t stream = 1; stream < 2 * 99; stream += 2) {
    bytes +=
        Frame(kHeaders, 4, stream, std::string(stream * 7, 'h')) + Frame(kReset, 0, stream, "code");
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
    Http2Meter meter(&all_);
    ASSERT_EQ(meter.Received(kPreface, now_), nullptr);
    for (uint32_t stream = 1; Abandons(&meter, stream); stream += 2) ++taken;
  }
  const int free = static_cast<int>(Http2Meter::kAlwaysAbandoned);
  EXPECT_LE(taken, static_cast<int>(AbandonedStreams::kMost) + 1000 * free);
  EXPECT_GE(taken, static_cast<int>(AbandonedStreams::kMost));
  for (uint32_t stream = 1; stream < 2u * free; stream += 2) {
    EXPECT_TRUE(Abandons(&meter_, stream));
  }
}

}  // namespace
}  // namespace warpline::grpc_internal
