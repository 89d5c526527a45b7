// Finds the frames of HTTP/2 (RFC 9113, section 4.1) in bytes that come in pieces of any size.
// Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_FRAME_READER_H_
#define WARPLINE_TRANSPORT_GRPC_METER_FRAME_READER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpline::grpc_internal {

struct FrameHeader {
  uint32_t bytes = 0;  // Of the payload.
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
  uint32_t window = 0;  // By how much a WINDOW_UPDATE widens it.
};

// Not thread-safe.
class FrameReader {
 public:
  // Passes over the first `preface` bytes.
  explicit FrameReader(size_t preface) : skip_(preface) {}

  // Calls `take` with each header that is complete with these bytes. Returns false when `take` did,
  // and looks at nothing more then.
  template <typename Take>
  bool Read(std::string_view bytes, Take take) {
    while (!bytes.empty()) {
      if (skip_ > 0) {
        const size_t passed = std::min<size_t>(skip_, bytes.size());
        skip_ -= passed;
        bytes.remove_prefix(passed);
        continue;
      }
      header_[have_++] = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (have_ < kHeaderBytes) continue;
      FrameHeader header = Parse();
      if (header.type == kWindowUpdateType && header.bytes == kWindowBytes) {
        if (have_ < header_.size()) continue;
        header.window = NumberAt(kHeaderBytes) & 0x7fffffff;
        header.bytes = 0;
      }
      have_ = 0;
      skip_ = header.bytes;
      if (!take(header)) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kHeaderBytes = 9;
  static constexpr size_t kWindowBytes = 4;
  static constexpr uint8_t kWindowUpdateType = 8;

  uint32_t NumberAt(size_t at) const {
    const auto byte = [this](size_t i) { return static_cast<uint32_t>(header_[i]); };
    return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
  }
  FrameHeader Parse() const {
    return {.bytes = NumberAt(0) >> 8,
            .type = header_[3],
            .flags = header_[4],
            .stream = NumberAt(5) & 0x7fffffff};
  }

  size_t skip_;
  // The frame's header, and after it the increment of a WINDOW_UPDATE.
  std::array<uint8_t, kHeaderBytes + kWindowBytes> header_ = {};
  size_t have_ = 0;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_FRAME_READER_H_
