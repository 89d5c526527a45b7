#include "transport/grpc/base/wire_codec.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/types/span.h"

namespace warpline::grpc_internal {
namespace {

// Below this a copy is cheaper than a second slice and its allocation.
constexpr size_t kCopyBelow = 4096;

constexpr size_t kMaxCloseMessage = 1024;

enum WireType : uint32_t { kVarint = 0, kBytes = 2 };
constexpr uint32_t Tag(uint32_t field, WireType type) { return field << 3 | type; }
constexpr uint32_t kKindTag = Tag(1, kVarint);
constexpr uint32_t kPayloadTag = Tag(2, kBytes);
constexpr uint32_t kCloseCodeTag = Tag(3, kVarint);

uint8_t* PutVarint(uint64_t value, uint8_t* out) {
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *out++ = static_cast<uint8_t>(value);
  return out;
}

// A payload that gRPC frees from a thread of its own. The flag hands the memory over in a way that
// ThreadSanitizer can follow; it does not see the locks inside gRPC.
struct OwnedPayload {
  explicit OwnedPayload(Frame* frame)
      : bytes(std::move(frame->payload)), shared(std::move(frame->shared)) {
    handed_over.store(true, std::memory_order_release);
  }
  const std::string& get() const { return shared != nullptr ? *shared : bytes; }
  const std::string bytes;
  const std::shared_ptr<const std::string> shared;
  std::atomic<bool> handed_over{false};
};

void FreePayload(void* arg) {
  auto* payload = static_cast<OwnedPayload*>(arg);
  payload->handed_over.load(std::memory_order_acquire);
  delete payload;
}

grpc::ByteBuffer Encode(Frame* frame, uint32_t close_code) {
  const std::string_view payload = frame->bytes();
  uint8_t header[kMaxWireOverhead];
  uint8_t* end = header;
  if (frame->kind != 0) {
    *end++ = kKindTag;
    end = PutVarint(frame->kind, end);
  }
  if (close_code != 0) {
    *end++ = kCloseCodeTag;
    end = PutVarint(close_code, end);
  }
  *end++ = kPayloadTag;
  end = PutVarint(payload.size(), end);
  const size_t header_size = end - header;

  if (payload.size() < kCopyBelow) {
    grpc::Slice slice(header_size + payload.size());
    uint8_t* out = const_cast<uint8_t*>(slice.begin());
    out = std::copy_n(header, header_size, out);
    std::copy(payload.begin(), payload.end(), out);
    return grpc::ByteBuffer(&slice, 1);
  }
  auto* owned = new OwnedPayload(frame);
  grpc::Slice slices[2] = {
      grpc::Slice(header, header_size),
      grpc::Slice(const_cast<char*>(owned->get().data()), owned->get().size(), &FreePayload, owned),
  };
  return grpc::ByteBuffer(slices, 2);
}

// Reads bytes across slices.
class Cursor {
 public:
  explicit Cursor(absl::Span<const grpc::Slice> slices) : slices_(slices) { Settle(); }

  bool AtEnd() const { return next_ == slices_.size(); }

  bool ReadVarint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (AtEnd()) return false;
      const uint8_t byte = *(slices_[next_].begin() + offset_);
      Advance(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  bool ReadBytes(size_t size, std::string* out) {
    out->clear();
    if (size == 0) return true;
    // Not reserved from `size` alone: a peer could claim more than it sent.
    while (out->size() < size) {
      if (AtEnd()) return false;
      const size_t take = std::min(size - out->size(), slices_[next_].size() - offset_);
      if (out->empty()) out->reserve(size);
      out->append(reinterpret_cast<const char*>(slices_[next_].begin()) + offset_, take);
      Advance(take);
    }
    return true;
  }

 private:
  void Advance(size_t count) {
    offset_ += count;
    Settle();
  }
  void Settle() {
    while (next_ < slices_.size() && offset_ == slices_[next_].size()) {
      ++next_;
      offset_ = 0;
    }
  }

  absl::Span<const grpc::Slice> slices_;
  size_t next_ = 0;
  size_t offset_ = 0;
};

absl::Status Malformed() { return absl::InvalidArgumentError("malformed frame"); }

}  // namespace

grpc::ByteBuffer EncodeFrame(Frame* frame) { return Encode(frame, 0); }

grpc::ByteBuffer EncodeClose(const absl::Status& status) {
  Frame frame = {0, std::string(status.message().substr(0, kMaxCloseMessage))};
  return Encode(&frame, static_cast<uint32_t>(status.code()));
}

absl::Status FrameDecoder::Decode(const grpc::ByteBuffer& message, Frame* frame,
                                  absl::Status* peer_close) {
  if (message.Length() > max_payload_ + kMaxWireOverhead) {
    return absl::InvalidArgumentError("frame above the size limit");
  }
  frame->kind = 0;
  frame->payload.clear();
  uint64_t close_code = 0;
  grpc::Slice single;
  absl::Span<const grpc::Slice> slices;
  if (message.TrySingleSlice(&single).ok()) {
    slices = absl::MakeConstSpan(&single, 1);
  } else {
    slices_.clear();
    if (!message.Dump(&slices_).ok()) return Malformed();
    slices = slices_;
  }
  Cursor cursor(slices);
  while (!cursor.AtEnd()) {
    uint64_t tag;
    uint64_t value;
    if (!cursor.ReadVarint(&tag) || !cursor.ReadVarint(&value)) return Malformed();
    switch (tag) {
      case kKindTag:
        if (value > UINT32_MAX) return Malformed();
        frame->kind = static_cast<uint32_t>(value);
        break;
      case kPayloadTag:
        if (value > max_payload_) return absl::InvalidArgumentError("frame above the size limit");
        if (!cursor.ReadBytes(value, &frame->payload)) return Malformed();
        break;
      case kCloseCodeTag:
        if (value > static_cast<uint64_t>(absl::StatusCode::kUnauthenticated)) return Malformed();
        close_code = value;
        break;
      default:
        return Malformed();
    }
  }
  slices_.clear();
  if (close_code != 0) {
    *peer_close = absl::Status(static_cast<absl::StatusCode>(close_code),
                               frame->payload.substr(0, kMaxCloseMessage));
  }
  return absl::OkStatus();
}

}  // namespace warpline::grpc_internal
