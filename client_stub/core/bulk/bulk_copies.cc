#include "client_stub/core/bulk/bulk_copies.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <vector>

#include "client_stub/core/bulk/part_copy.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

// The pieces that copies which return at once leave for those that threads wait for.
constexpr size_t kLeftForOthers = 2;

}  // namespace

Staging* BulkCopies::Choose(uint64_t (Staging::*least)() const, uint64_t bytes, int* parts) {
  for (Staging* const staging :
       std::initializer_list<Staging*>{&shared_, &by_relay_, &by_server_}) {
    if (bytes < (staging->*least)()) continue;
    const bool shared = bytes >= staging->least_shared();
    const uint64_t units = shared ? bytes / staging->part_unit() : 1;
    *parts = staging->Reserve(bytes, static_cast<int>(std::min<uint64_t>(
                                         units, static_cast<uint64_t>(threads_.parts()))));
    if (*parts > 0) return staging;
    if (staging->Soon()) return nullptr;
  }
  return nullptr;
}

template <typename Copy>
CUresult BulkCopies::InParts(int parts, uint64_t unit, uint64_t bytes, uint64_t* done, Copy copy) {
  if (parts == 1) return copy(0, 0, bytes, done);
  const auto count = static_cast<uint64_t>(parts);
  const uint64_t units = (bytes + unit - 1) / unit;
  const uint64_t each = (units + count - 1) / count * unit;
  struct Outcome {
    CUresult result = CUDA_SUCCESS;
    uint64_t done = 0;
  };
  std::vector<Outcome> outcomes((bytes + each - 1) / each);
  threads_.Run(static_cast<int>(outcomes.size()), [&](int index) {
    const uint64_t offset = static_cast<uint64_t>(index) * each;
    Outcome& outcome = outcomes[static_cast<size_t>(index)];
    outcome.result = copy(index, offset, std::min(each, bytes - offset), &outcome.done);
  });
  // A part that was left unfinished ends what is done; what comes after it is copied again.
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].result != CUDA_SUCCESS) return outcomes[i].result;
    if (*done == i * each) *done += outcomes[i].done;
  }
  return CUDA_SUCCESS;
}

CUresult BulkCopies::CopyIn(Stream* stream, uint64_t to, const void* from, uint64_t bytes,
                            Notice notice, uint64_t* done) {
  *done = 0;
  int parts = 0;
  Staging* const staging = Choose(&Staging::least_in, bytes, &parts);
  if (staging == nullptr) return CUDA_SUCCESS;
  const char* const source = static_cast<const char*>(from);
  return InParts(parts, staging->part_unit(), bytes, done,
                 [&](int part, uint64_t offset, uint64_t part_bytes, uint64_t* part_done) {
                   return PartCopy(commands_, staging, part, stream)
                       .In(to + offset, source + offset, part_bytes, notice, part_done);
                 });
}

CUresult BulkCopies::CopyOut(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                             uint64_t* done) {
  *done = 0;
  int parts = 0;
  Staging* const staging = Choose(&Staging::least_out, bytes, &parts);
  if (staging == nullptr) return CUDA_SUCCESS;
  char* const target = static_cast<char*>(to);
  std::atomic<uint64_t> last{0};
  WARPLINE_TRY(InParts(parts, staging->part_unit(), bytes, done,
                       [&](int part, uint64_t offset, uint64_t part_bytes, uint64_t* part_done) {
                         return PartCopy(commands_, staging, part, stream)
                             .Out(target + offset, from + offset, part_bytes, part_done, &last);
                       }));
  if (*done == 0) return CUDA_SUCCESS;
  return ToCu(commands_->Await(WaitKind::kCopyOut, stream->wire, last.load(),
                               cmd::StreamSync{stream->wire}));
}

CUresult BulkCopies::CopyOutLater(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                                  uint64_t* seq, uint64_t* done) {
  *done = 0;
  if (shared_.Reserve(bytes, 1) == 0) return CUDA_SUCCESS;
  PiecePool& pool = shared_.pool(0);
  while (*done < bytes) {
    const uint64_t piece = pool.Take(kLeftForOthers);
    if (piece == 0) break;
    const uint64_t count = std::min(pool.piece_bytes(), bytes - *done);
    const cmd::CopyOnDevice command = {stream->wire, piece, from + *done, count};
    uint64_t copied = 0;
    CUresult result = SendOn(stream, command, {}, &copied);
    if (result == CUDA_SUCCESS) {
      result = ToCu(commands_->CopyStaged(stream->wire, static_cast<char*>(to) + *done,
                                          reinterpret_cast<const void*>(piece), from + *done, count,
                                          seq));
    }
    if (result != CUDA_SUCCESS) {
      pool.Give(piece, stream->wire, copied);
      return result;
    }
    NoteSent(stream, *seq, Notice::kNoticed);
    // The piece is used again when its bytes are there.
    pool.Give(piece, stream->wire, *seq);
    *done += count;
  }
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
