#include "server/gpu_server/session/bulk/bulk_channel.h"

#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

// A request for memory is a few numbers.
constexpr size_t kMaxRequest = 1024;

}  // namespace

void BulkChannel::End(const absl::Status& status) {
  if (ended_) return;
  ended_ = true;
  gets_.clear();
  // In this order: a session that ends closes its bulk connections, with a status of its own.
  channel_->Close(status);
  if (absl::IsInvalidArgument(status)) events_.broken(status);
}

Accept BulkChannel::OnFrame(Frame* frame) {
  if (ended_) return Accept::kTaken;
  absl::Status status;
  switch (frame->kind) {
    case kBulkPut:
      status = OnPut(*frame);
      break;
    case kBulkGet:
      status = OnGet(*frame);
      break;
    case kBulkMemory:
      status = OnMemory(*frame);
      break;
    default:
      status = absl::InvalidArgumentError(
          absl::StrCat("frame kind ", frame->kind, " on a bulk connection"));
  }
  if (!status.ok()) End(status);
  return Accept::kTaken;
}

absl::Status BulkChannel::OnPut(const Frame& frame) {
  BulkHeader header;
  if (frame.payload.size() < sizeof(header)) return absl::InvalidArgumentError("malformed put");
  std::memcpy(&header, frame.payload.data(), sizeof(header));
  const std::string_view bytes = std::string_view(frame.payload).substr(sizeof(header));
  if (bytes.size() != header.bytes || bytes.empty() || bytes.size() > kMaxBulkPiece) {
    return absl::InvalidArgumentError(absl::StrCat("a put of ", header.bytes, " bytes"));
  }
  ++puts_;
  absl::Status put = port_->Put(slot_, channel_, header.va, bytes);
  if (put.ok()) events_.moved(bytes.size());
  return put;
}

absl::Status BulkChannel::OnGet(const Frame& frame) {
  BulkHeader header;
  if (frame.payload.size() != sizeof(header)) return absl::InvalidArgumentError("malformed get");
  std::memcpy(&header, frame.payload.data(), sizeof(header));
  if (header.bytes == 0 || header.bytes > kMaxBulkPiece) {
    return absl::InvalidArgumentError(absl::StrCat("a get of ", header.bytes, " bytes"));
  }
  if (gets_.size() >= kMaxGets) return absl::InvalidArgumentError("too many gets at a time");
  gets_.push_back(header);
  return absl::OkStatus();
}

absl::Status BulkChannel::OnMemory(const Frame& frame) {
  warpline_internal::HostMemoryRequest request;
  if (memory_asked_ || frame.payload.size() > kMaxRequest ||
      !request.ParseFromString(frame.payload) || request.board()) {
    return absl::InvalidArgumentError("malformed request for host memory");
  }
  memory_asked_ = true;
  events_.memory(slot_, std::move(request));
  return absl::OkStatus();
}

bool BulkChannel::Answer(Frame* frame) {
  const BulkHeader header = gets_.front();
  gets_.pop_front();
  frame->kind = kBulkBytes;
  frame->payload.resize(header.bytes);
  const absl::Status read = port_->Get(slot_, channel_, header.va, &frame->payload);
  if (!read.ok()) {
    End(read);
    return false;
  }
  events_.moved(header.bytes);
  return true;
}

bool BulkChannel::NextFrame(Frame* frame) {
  if (ended_) return false;
  frame->shared = nullptr;
  if (ready_due_) {
    ready_due_ = false;
    frame->kind = kBulkReady;
    frame->payload.clear();
    return true;
  }
  // Puts first: whoever waits for them sends more.
  if (puts_told_ != puts_) {
    const BulkTakenBody body = {puts_};
    puts_told_ = puts_;
    frame->kind = kBulkTaken;
    frame->payload.assign(reinterpret_cast<const char*>(&body), sizeof(body));
    return true;
  }
  if (!gets_.empty()) return Answer(frame);
  if (!port_->Pop(slot_, channel_, frame)) return false;
  memory_asked_ = false;
  return true;
}

}  // namespace warpline::server
