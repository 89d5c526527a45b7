#include "client_stub/core/bulk/part_copy.h"

#include <algorithm>
#include <utility>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

// Pieces that one thread has the device fill at a time.
constexpr size_t kPiecesAhead = 4;

}  // namespace

CudaResult PartCopy::AwaitPiece(uint64_t seq) {
  return commands_->Await(WaitKind::kPiece, stream_->wire, seq, cmd::StreamSync{stream_->wire});
}

CUresult PartCopy::SendCopy(uint64_t to, uint64_t from, Notice notice, Piece* piece) {
  const cmd::CopyOnDevice command = {stream_->wire, to, from, piece->bytes};
  return SendOn(stream_, command, {}, &piece->seq, notice);
}

void PartCopy::GiveAll(std::deque<Piece>* pieces) {
  for (const Piece& piece : *pieces) pool().Give(piece.address, stream_->wire, piece.seq);
  pieces->clear();
}

bool PartCopy::Fill(const char* from, uint64_t bytes) {
  while (begun_ < bytes && carried_.size() < staging_->ahead()) {
    Piece piece = {pool().Take(), std::min(pool().piece_bytes(), bytes - begun_)};
    if (piece.address == 0) {
      if (!carried_.empty()) return true;
      if (on_device_.empty()) {
        piece.address = pool().Await();
        if (piece.address == 0) return false;
      } else {
        // The command that follows reports the same error.
        (void)AwaitPiece(on_device_.front().seq);
        on_device_.pop_front();
        continue;
      }
    }
    piece.ticket = staging_->Fill(part_, piece.address, from + begun_, piece.bytes);
    begun_ += piece.bytes;
    carried_.push_back(std::move(piece));
  }
  return true;
}

CUresult PartCopy::In(uint64_t to, const char* from, uint64_t bytes, Notice notice,
                      uint64_t* done) {
  for (*done = 0; *done < bytes;) {
    if (!Fill(from, bytes)) break;
    Piece piece = std::move(carried_.front());
    // The rest goes another way when the connection is lost.
    if (!staging_->Arrived(part_, piece.ticket)) break;
    carried_.pop_front();
    const CUresult sent = SendCopy(to + *done, piece.address, notice, &piece);
    pool().Give(piece.address, stream_->wire, piece.seq);
    if (sent != CUDA_SUCCESS) {
      GiveAll(&carried_);
      return sent;
    }
    *done += piece.bytes;
    on_device_.push_back(std::move(piece));
  }
  GiveAll(&carried_);
  return CUDA_SUCCESS;
}

CUresult PartCopy::Ask(uint64_t from, uint64_t bytes) {
  while (begun_ < bytes && on_device_.size() < kPiecesAhead) {
    Piece piece = {pool().Take(), std::min(pool().piece_bytes(), bytes - begun_)};
    if (piece.address == 0 && on_device_.empty() && carried_.empty()) {
      piece.address = pool().Await();
    }
    if (piece.address == 0) return CUDA_SUCCESS;
    const CUresult sent = SendCopy(piece.address, from + begun_, Notice::kNoticed, &piece);
    if (sent != CUDA_SUCCESS) {
      pool().Give(piece.address, 0, 0);
      return sent;
    }
    piece.filled = commands_->Announce(WaitKind::kPiece, stream_->wire, piece.seq,
                                       cmd::StreamSync{stream_->wire});
    begun_ += piece.bytes;
    on_device_.push_back(std::move(piece));
  }
  return CUDA_SUCCESS;
}

CUresult PartCopy::Fetch(char* to) {
  WARPLINE_TRY(ToCu(on_device_.front().filled->Wait()));
  Piece piece = std::move(on_device_.front());
  on_device_.pop_front();
  piece.ticket = staging_->Fetch(part_, piece.address, to + fetched_, piece.bytes);
  fetched_ += piece.bytes;
  carried_.push_back(std::move(piece));
  return CUDA_SUCCESS;
}

bool PartCopy::Arrived(const Piece& piece) {
  return staging_->Arrived(part_, piece.ticket) && piece.ticket.connection == connection_;
}

CUresult PartCopy::Out(char* to, uint64_t from, uint64_t bytes, uint64_t* done,
                       std::atomic<uint64_t>* last) {
  CUresult result = CUDA_SUCCESS;
  bool arrived = true;
  *done = 0;
  while (*done < bytes && result == CUDA_SUCCESS && arrived) {
    result = Ask(from, bytes);
    if (result == CUDA_SUCCESS && !on_device_.empty()) result = Fetch(to);
    if (result != CUDA_SUCCESS || carried_.empty()) break;
    // While more can be on its way, nothing is waited for.
    if (carried_.size() < staging_->ahead() && !on_device_.empty()) continue;
    const Piece piece = std::move(carried_.front());
    carried_.pop_front();
    arrived = Arrived(piece);
    pool().Give(piece.address, 0, 0);
    if (!arrived) break;
    *done += piece.bytes;
    last->store(piece.seq);  // Any complete command will do.
  }
  // Nothing may be written to the target after this.
  for (Piece& piece : carried_) {
    (void)Arrived(piece);
    piece.seq = 0;
  }
  GiveAll(&carried_);
  // The device may still write there.
  GiveAll(&on_device_);
  return result;
}

}  // namespace warpline::stub
