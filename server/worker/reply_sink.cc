#include "server/worker/reply_sink.h"

namespace warpline::worker {

void ReplySink::Write(std::string_view head, std::string_view tail) {
  MutexLock lock(&mu_);
  writer_->Write(head, tail);
}

void ReplySink::Reply(uint64_t seq, CudaResult result, std::string_view fields,
                      std::string_view tail) {
  std::string out;
  if (result != CudaResult::kSuccess) fields = tail = {};
  AppendReply(seq, static_cast<int32_t>(result), fields, tail, &out);
  Write(out);
}

void ReplySink::CopyData(uint64_t seq, uint64_t offset, std::string_view data) {
  // The data goes from staging memory to the ring without a copy between.
  const notice::CopyData fields = {offset};
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

void ReplySink::Failed(uint64_t seq, CommandId id, CudaResult result, std::string_view what) {
  std::string out;
  AppendNotice(ReplyId::kFailed, seq,
               notice::Failed{static_cast<uint32_t>(id), static_cast<int32_t>(result)},
               what.substr(0, 1024), &out);
  Write(out);
}

}  // namespace warpline::worker
