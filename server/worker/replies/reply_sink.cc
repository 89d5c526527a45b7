#include "server/worker/replies/reply_sink.h"

#include <algorithm>
#include <utility>

#include "proto/frames.h"

namespace warpline::worker {
namespace {

constexpr size_t kSmallData = 16u << 10;

// Takes the first of these replies. The tail of the last one may lie elsewhere.
bool TakeReply(std::string_view* replies, ReplyHeader* header, std::string_view* body) {
  *body = *replies;
  if (!TakeStruct(body, header)) return false;
  replies->remove_prefix(std::min(replies->size(), AlignWire(header->size)));
  return true;
}

uint64_t CountOrdered(std::string_view replies) {
  uint64_t count = 0;
  ReplyHeader header;
  for (std::string_view body; TakeReply(&replies, &header, &body);) {
    if (IsOrdered(static_cast<ReplyId>(header.id))) ++count;
  }
  return count;
}

}  // namespace

void ReplySink::Write(std::string_view head, std::string_view tail) {
  MutexLock lock(&mu_);
  if (muted_) return;
  if (board_ == nullptr) return writer_->Write(head, tail);
  const uint64_t ordered = CountOrdered(head);
  ordered_ += ordered;
  // Nobody who reads a report shall wait for replies that have not been written.
  if (ordered == 0) Report(head);
  writer_->Write(head, tail);
  if (ordered != 0) Report(head);
}

void ReplySink::Report(std::string_view replies) {
  ReplyHeader header;
  for (std::string_view body; TakeReply(&replies, &header, &body);) {
    notice::Retired retired;
    if (static_cast<ReplyId>(header.id) != ReplyId::kRetired || !TakeStruct(&body, &retired)) {
      continue;
    }
    if (header.seq != 0) board_->Write(retired.stream, header.seq, ordered_);
    if (retired.all_seq <= all_seq_) continue;
    all_seq_ = retired.all_seq;
    board_->Write(kWholeSession, all_seq_, ordered_);
  }
}

bool ReplySink::Awaited(uint64_t stream) {
  MutexLock lock(&mu_);
  return board_ != nullptr && (board_->Awaited(stream) || board_->Awaited(kWholeSession));
}

void ReplySink::UseBoard(std::unique_ptr<BoardWriter> board) {
  std::string out;
  AppendNotice(ReplyId::kBoardBegins, 0, notice::BoardBegins{board->generation()}, {}, &out);
  MutexLock lock(&mu_);
  writer_->Write(out, {});
  board_ = std::move(board);
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
