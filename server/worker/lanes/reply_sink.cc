#include "server/worker/lanes/reply_sink.h"

namespace warpline::worker {
namespace {

constexpr size_t kSmallData = 16u << 10;

}  // namespace

void ReplySink::Write(std::string_view head, std::string_view tail) {
  MutexLock lock(&mu_);
  if (!muted_) writer_->Write(head, tail);
}

void ReplySink::SetMuted(bool muted) {
  MutexLock lock(&mu_);
  muted_ = muted;
}

void ReplySink::Reply(uint64_t seq, CudaResult result, std::string_view fields,
                      std::string_view tail) {
  std::string out;
  if (result != CudaResult::kSuccess) fields = tail = {};
  AppendReply(seq, static_cast<int32_t>(result), fields, tail, &out);
  Write(out);
  Answered(1);
}

void ReplySink::Send(std::string* batch) {
  if (batch->empty()) return;
  Write(*batch);
  batch->clear();
}

void ReplySink::CopyData(uint64_t seq, uint64_t offset, std::string_view data, std::string* batch) {
  const notice::CopyData fields = {offset};
  if (data.size() <= kSmallData) {
    AppendNotice(ReplyId::kCopyData, seq, fields, data, batch);
    return;
  }
  Send(batch);
  // The data goes from staging memory to the ring without a copy in between.
  const ReplyHeader header = {
      static_cast<uint16_t>(ReplyId::kCopyData), 0,
      static_cast<uint32_t>(sizeof(ReplyHeader) + sizeof(fields) + data.size()), seq};
  char head[sizeof(header) + sizeof(fields)];
  std::memcpy(head, &header, sizeof(header));
  std::memcpy(head + sizeof(header), &fields, sizeof(fields));
  Write(std::string_view(head, sizeof(head)), data);
}

void ReplySink::Retired(uint64_t stream, uint64_t seq, uint64_t all_seq, uint64_t count) {
  std::string out;
  AppendNotice(ReplyId::kRetired, seq, notice::Retired{stream, all_seq, count}, {}, &out);
  Write(out);
}

void ReplySink::Freed(uint64_t token) {
  std::string out;
  AppendNotice(ReplyId::kFreed, 0, notice::Freed{token}, {}, &out);
  Write(out);
}

void ReplySink::Unmapped(uint64_t token) {
  std::string out;
  AppendNotice(ReplyId::kUnmapped, 0, notice::Unmapped{token}, {}, &out);
  Write(out);
}

void ReplySink::Output(int descriptor, std::string_view text) {
  std::string out;
  AppendNotice(ReplyId::kOutput, 0, notice::Output{static_cast<uint32_t>(descriptor), 0}, text,
               &out);
  Write(out);
}

void ReplySink::Failed(uint64_t seq, CommandId id, CudaResult result, std::string_view what) {
  std::string out;
  AppendNotice(ReplyId::kFailed, seq,
               notice::Failed{static_cast<uint32_t>(id), static_cast<int32_t>(result)},
               what.substr(0, 1024), &out);
  Write(out);
}

}  // namespace warpline::worker
