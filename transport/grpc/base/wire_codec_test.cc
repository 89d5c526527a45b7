#include "transport/grpc/base/wire_codec.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/session_service.pb.h"

namespace warpline::grpc_internal {
namespace {

using ::warpline_internal::WireFrame;

constexpr size_t kLimit = 100000;

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

// In slices of `piece` bytes.
grpc::ByteBuffer Buffer(const std::string& bytes, size_t piece = 1 << 20) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    slices.emplace_back(bytes.substr(i, piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

struct Decoded {
  absl::Status status;
  Frame frame;
  absl::Status peer_close;
};

Decoded Decode(const grpc::ByteBuffer& buffer) {
  FrameDecoder decoder(kLimit);
  Decoded decoded;
  decoded.status = decoder.Decode(buffer, &decoded.frame, &decoded.peer_close);
  return decoded;
}

TEST(WireCodec, SharedPayloadsStayWithTheirOwner) {
  for (const size_t size : {10, 90000}) {
    const auto shared = std::make_shared<const std::string>(size, 's');
    Frame frame = {7, "", shared};
    const grpc::ByteBuffer first = EncodeFrame(&frame);
    frame = {7, "", shared};
    WireFrame wire;
    ASSERT_TRUE(wire.ParseFromString(Bytes(EncodeFrame(&frame))));
    EXPECT_EQ(wire.payload(), *shared);
    EXPECT_EQ(Bytes(first), wire.SerializeAsString());
    EXPECT_EQ(*shared, std::string(size, 's'));
  }
}

TEST(WireCodec, EncodesWhatProtobufParses) {
  for (const uint32_t kind : {0u, 1u, 127u, 128u, 0xffffffffu}) {
    for (const size_t size : {0, 1, 200, 4095, 4096, 90000}) {
      Frame frame = {kind, std::string(size, 'p')};
      WireFrame wire;
      ASSERT_TRUE(wire.ParseFromString(Bytes(EncodeFrame(&frame))));
      EXPECT_EQ(wire.kind(), kind);
      EXPECT_EQ(wire.payload(), std::string(size, 'p'));
      EXPECT_EQ(wire.close_code(), 0u);
    }
  }
}

TEST(WireCodec, DecodesWhatProtobufSerializes) {
  for (const size_t piece : {1, 3, 1000, 1000000}) {
    WireFrame wire;
    wire.set_kind(300);
    for (int i = 0; i < 5000; ++i) wire.mutable_payload()->push_back(static_cast<char>(i));
    const Decoded decoded = Decode(Buffer(wire.SerializeAsString(), piece));
    EXPECT_EQ(decoded.status, absl::OkStatus());
    EXPECT_EQ(decoded.frame.kind, 300u);
    EXPECT_EQ(decoded.frame.payload, wire.payload());
    EXPECT_EQ(decoded.peer_close, absl::OkStatus());
  }
}

TEST(WireCodec, AnEmptyMessageIsAnEmptyFrame) {
  const Decoded decoded = Decode(Buffer(""));
  EXPECT_EQ(decoded.status, absl::OkStatus());
  EXPECT_EQ(decoded.frame.kind, 0u);
  EXPECT_EQ(decoded.frame.payload, "");
}

TEST(WireCodec, ACloseCarriesItsStatus) {
  const absl::Status reason = absl::DataLossError("why");
  const Decoded decoded = Decode(EncodeClose(reason));
  EXPECT_EQ(decoded.status, absl::OkStatus());
  EXPECT_EQ(decoded.peer_close, reason);
}

TEST(WireCodec, ALongReasonIsCut) {
  const Decoded decoded = Decode(EncodeClose(absl::InternalError(std::string(100000, 'x'))));
  EXPECT_EQ(decoded.peer_close.message(), std::string(1024, 'x'));
}

TEST(WireCodec, MalformedMessagesAreRefused) {
  const std::string cases[] = {
      std::string("\x08"),                                              // No value.
      std::string("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),  // Endless varint.
      std::string("\x08\x80\x80\x80\x80\x10"),                          // kind above 32 bits.
      std::string("\x12\x05zzz"),                               // Payload longer than the message.
      std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),  // Length near 2^63.
      std::string("\x18\x11"),                                  // A close code that does not exist.
      std::string("\x20\x01"),                                  // A field that does not exist.
      std::string("\x0a\x01x"),                                 // kind as bytes.
      std::string("\x10\x01"),                                  // payload as a number.
      std::string("\xff"),
  };
  for (const std::string& bytes : cases) {
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(Buffer(bytes)).status))
        << ::testing::PrintToString(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(Buffer(bytes, 1)).status))
        << ::testing::PrintToString(bytes);
  }
}

TEST(WireCodec, PayloadsAboveTheLimitAreRefused) {
  Frame at_limit = {1, std::string(kLimit, 'x')};
  EXPECT_EQ(Decode(EncodeFrame(&at_limit)).status, absl::OkStatus());
  Frame above = {1, std::string(kLimit + 1, 'x')};
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(EncodeFrame(&above)).status));
}

TEST(WireCodec, ArbitraryBytesNeverGoWrong) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) {
      // Mostly tags and small lengths, to get far.
      byte = static_cast<char>(random() % 2 == 0 ? "\x08\x12\x18"[random() % 3] : random() % 256);
    }
    const Decoded decoded = Decode(Buffer(bytes, 1 + random() % 5));
    if (decoded.status.ok()) {
      WireFrame wire;
      ASSERT_TRUE(wire.ParseFromString(bytes)) << ::testing::PrintToString(bytes);
      EXPECT_EQ(wire.kind(), decoded.frame.kind);
      EXPECT_EQ(wire.payload(), decoded.frame.payload);
    }
  }
}

}  // namespace
}  // namespace warpline::grpc_internal
