// One part of a copy through staging memory, by one thread. The part is cut into pieces. A piece
// goes from the application's memory to staging memory and from there to the device, or the other
// way round, and several pieces are on their way at a time.
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

  // See BulkCopies::CopyIn() and CopyOut(). Out() does not make the last wait of CopyOut(), but
  // sets `*last` to the number of the command to wait for.
  CUresult In(uint64_t to, const char* from, uint64_t bytes, Notice notice, uint64_t* done);
  CUresult Out(char* to, uint64_t from, uint64_t bytes, uint64_t* done,
               std::atomic<uint64_t>* last);

 private:
  struct Piece {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t seq = 0;  // The number of its command.
    BulkTicket ticket = {};
    std::unique_ptr<AnnouncedWait> filled = nullptr;  // Out() only: the wait for the device.
  };

  PiecePool& pool() { return staging_->pool(part_); }
  CudaResult AwaitPiece(uint64_t seq);
  // Sends the command for a piece, and sets its number.
  CUresult SendCopy(uint64_t to, uint64_t from, Notice notice, Piece* piece);
  // In() only: begins to fill the pieces that are free. Returns false when there is none, and none
  // will come.
  bool Fill(const char* from, uint64_t bytes);
  // Out() only: sends commands for the pieces that are free.
  CUresult Ask(uint64_t from, uint64_t bytes);
  // Out() only: waits until the device has filled the oldest piece, and begins to fetch it.
  CUresult Fetch(char* to);
  // Out() only: waits until a piece has been fetched. Returns false if the bytes may not be those
  // that the device wrote.
  bool Arrived(const Piece& piece);
  // Gives all pieces back to the pool.
  void GiveAll(std::deque<Piece>* pieces);

  Commands* const commands_;
  Staging* const staging_;
  const int part_;
  Stream* const stream_;
  const uint64_t connection_;
  uint64_t begun_ = 0;         // Bytes whose copy has begun.
  uint64_t fetched_ = 0;       // Out() only: bytes on their way to the host, or there.
  std::deque<Piece> carried_;  // On their way between the application's memory and staging memory.
  std::deque<Piece> on_device_;  // On their way between staging memory and the device.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_PART_COPY_H_
