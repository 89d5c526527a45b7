#include "client_stub/core/bulk/bulk_copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <vector>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

// Below this one thread copies alone: the others would have to wake up first.
constexpr uint64_t kSharedBytes = 4u << 20;
// Pieces that one copying thread has under way.
constexpr size_t kPiecesAhead = 4;

char* Memory(uint64_t address) { return reinterpret_cast<char*>(address); }

uint64_t PieceAt(uint64_t offset, uint64_t bytes) {
  return std::min(Staging::kPieceBytes, bytes - offset);
}

}  // namespace

template <typename Part>
CUresult BulkCopies::InParts(uint64_t bytes, uint64_t* done, Part part) {
  *done = 0;
  const auto count = static_cast<uint64_t>(bytes < kSharedBytes ? 1 : threads_.parts());
  if (!staging_.Reserve(bytes, 2 * count * kPiecesAhead)) return CUDA_SUCCESS;
  if (count == 1) return part(0, bytes, done);
  const uint64_t pieces = (bytes + Staging::kPieceBytes - 1) / Staging::kPieceBytes;
  const uint64_t each = (pieces + count - 1) / count * Staging::kPieceBytes;
  struct Outcome {
    CUresult result = CUDA_SUCCESS;
    uint64_t done = 0;
  };
  std::vector<Outcome> outcomes((bytes + each - 1) / each);
  threads_.Run(static_cast<int>(outcomes.size()), [&](int index) {
    const uint64_t offset = static_cast<uint64_t>(index) * each;
    Outcome& outcome = outcomes[static_cast<size_t>(index)];
    outcome.result = part(offset, std::min(each, bytes - offset), &outcome.done);
  });
  // A part that was left unfinished ends what is done; what comes after it is copied again.
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].result != CUDA_SUCCESS) return outcomes[i].result;
    if (*done == i * each) *done += outcomes[i].done;
  }
  return CUDA_SUCCESS;
}

CUresult BulkCopies::CopyIn(Stream* stream, uint64_t to, const void* from, uint64_t bytes,
                            uint64_t* done) {
  const char* const source = static_cast<const char*>(from);
  return InParts(bytes, done, [&](uint64_t offset, uint64_t part_bytes, uint64_t* part_done) {
    return PartIn(stream, to + offset, source + offset, part_bytes, part_done);
  });
}

CUresult BulkCopies::CopyOut(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                             uint64_t* done) {
  char* const target = static_cast<char*>(to);
  std::atomic<uint64_t> last{0};
  WARPLINE_TRY(InParts(bytes, done, [&](uint64_t offset, uint64_t part_bytes, uint64_t* part_done) {
    return PartOut(stream, target + offset, from + offset, part_bytes, part_done, &last);
  }));
  if (*done == 0) return CUDA_SUCCESS;
  return ToCu(Await(WaitKind::kCopyOut, *stream, last.load()));
}

CUresult BulkCopies::PartIn(Stream* stream, uint64_t to, const char* from, uint64_t bytes,
                            uint64_t* done) {
  std::deque<uint64_t> under_way;
  for (*done = 0; *done < bytes;) {
    uint64_t piece = staging_.Take();
    while (piece == 0 && !under_way.empty()) {
      WARPLINE_TRY(ToCu(Await(WaitKind::kPiece, *stream, under_way.front())));
      under_way.pop_front();
      piece = staging_.Take();
    }
    if (piece == 0) piece = staging_.Await();
    if (piece == 0) return CUDA_SUCCESS;
    const uint64_t size = PieceAt(*done, bytes);
    std::memcpy(Memory(piece), from + *done, size);
    uint64_t seq = 0;
    const CUresult sent =
        SendOn(stream, cmd::CopyOnDevice{stream->wire, to + *done, piece, size}, {}, &seq);
    staging_.Give(piece, stream->wire, seq);
    WARPLINE_TRY(sent);
    under_way.push_back(seq);
    *done += size;
  }
  return CUDA_SUCCESS;
}

CUresult BulkCopies::PartOut(Stream* stream, char* to, uint64_t from, uint64_t bytes,
                             uint64_t* done, std::atomic<uint64_t>* last) {
  struct Piece {
    uint64_t address;
    uint64_t size;
    uint64_t seq;
  };
  std::deque<Piece> under_way;
  CUresult result = CUDA_SUCCESS;
  uint64_t asked = 0;
  *done = 0;
  while (*done < bytes && result == CUDA_SUCCESS) {
    while (asked < bytes && under_way.size() < kPiecesAhead) {
      Piece piece = {staging_.Take(), PieceAt(asked, bytes), 0};
      if (piece.address == 0 && under_way.empty()) piece.address = staging_.Await();
      if (piece.address == 0) break;
      result =
          SendOn(stream, cmd::CopyOnDevice{stream->wire, piece.address, from + asked, piece.size},
                 {}, &piece.seq);
      if (result != CUDA_SUCCESS) {
        staging_.Give(piece.address, 0, 0);
        break;
      }
      asked += piece.size;
      under_way.push_back(piece);
    }
    if (under_way.empty()) break;
    const Piece piece = under_way.front();
    under_way.pop_front();
    if (result == CUDA_SUCCESS) {
      result = ToCu(Await(WaitKind::kPiece, *stream, piece.seq));
    }
    if (result == CUDA_SUCCESS) {
      std::memcpy(to + *done, Memory(piece.address), piece.size);
      *done += piece.size;
      last->store(piece.seq);  // Any of those that are complete will do.
    }
    // The device may still write there when the wait has failed.
    staging_.Give(piece.address, stream->wire, result == CUDA_SUCCESS ? 0 : piece.seq);
  }
  for (const Piece& piece : under_way) staging_.Give(piece.address, stream->wire, piece.seq);
  return result;
}

}  // namespace warpline::stub
