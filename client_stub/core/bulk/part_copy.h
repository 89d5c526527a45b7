// One part of a copy through staging memory, by one thread: pieces follow each other, each first on
// its way between the application's memory and the staging, then between that and the device, or
// the other way round.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_PART_COPY_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_PART_COPY_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/bulk/staging.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/session/commands.h"

namespace warpline::stub {

// Used by one thread, for one copy.
class PartCopy {
 public:
  // All are borrowed.
  PartCopy(Commands* commands, Staging* staging, int part, Stream* stream)
      : commands_(commands),
        staging_(staging),
        part_(part),
        stream_(stream),
        connection_(staging->Connection(part)) {}

  // As BulkCopies::CopyIn() and CopyOut(), but for the latter's last wait: `*last` gets the number
  // of a command to wait for.
  CUresult In(uint64_t to, const char* from, uint64_t bytes, uint64_t* done);
  CUresult Out(char* to, uint64_t from, uint64_t bytes, uint64_t* done,
               std::atomic<uint64_t>* last);

 private:
  struct Piece {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t seq = 0;  // Of its command.
    BulkTicket ticket = {};
    std::unique_ptr<AnnouncedWait> filled = nullptr;  // Of Out(): for the device.
  };

  PiecePool& pool() { return staging_->pool(part_); }
  CudaResult AwaitPiece(uint64_t seq);
  // Sends the command for a piece.
  CUresult SendCopy(uint64_t to, uint64_t from, Piece* piece);
  // Of In(): fills pieces as far as they are there. Returns false when none is, and none will be.
  bool Fill(const char* from, uint64_t bytes);
  // Of Out(): sends commands as far as there are pieces.
  CUresult Ask(uint64_t from, uint64_t bytes);
  // Of Out(): the oldest piece that the device fills is on its way to the host once it has been
  // filled.
  CUresult Fetch(char* to);
  // Of Out(): waits for a piece. False when what came may be something else.
  bool Arrived(const Piece& piece);
  void GiveAll(std::deque<Piece>* pieces);

  Commands* const commands_;
  Staging* const staging_;
  const int part_;
  Stream* const stream_;
  const uint64_t connection_;
  uint64_t begun_ = 0;           // Bytes whose copy has begun.
  uint64_t fetched_ = 0;         // Of Out(): bytes that are on their way to the host, or there.
  std::deque<Piece> carried_;    // On their way between the host and the staging.
  std::deque<Piece> on_device_;  // Between the staging and the device.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_PART_COPY_H_
