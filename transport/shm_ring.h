// A one-way ring of frames in memory shared by two processes that do not trust each other.
//
// One process writes, the other reads; two rings make a channel. The memory is a memfd that can
// neither shrink nor grow, so that no access faults. Each side keeps its own index in private
// memory and treats everything it reads from the shared part as hostile: an index or length that
// cannot be gives INVALID_ARGUMENT, from then on for good, and never an access outside the ring.
//
// Nothing blocks but the Wait methods. A side that is about to sleep says so in shared memory and
// looks again; the other side rings a doorbell only then. A doorbell is a pipe that each side opens
// anew for itself: the peer of an eventfd could make it block its other holders. A doorbell may
// ring late, twice or for nothing, and does not tell that the peer is gone.
//
// Layout: a page with the two indexes and the two flags, then `capacity` bytes, mapped twice in a
// row so that no frame is split. A frame is {u32 payload size, u32 kind}, its payload, and padding
// to 8 bytes. Indexes count bytes since the start.
#ifndef WARPLINE_TRANSPORT_SHM_RING_H_
#define WARPLINE_TRANSPORT_SHM_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "transport/shm_ring_map.h"

namespace warpline {

// What stands for a ring between processes: close-on-exec, and fit to be sent over a unix socket.
struct RingDescriptors {
  UniqueFd memory;
  UniqueFd readable;  // The doorbell that the writer rings.
  UniqueFd writable;  // The doorbell that the reader rings.

  // RESOURCE_EXHAUSTED when the process has no descriptors left.
  absl::StatusOr<RingDescriptors> Duplicate() const;
};

// `capacity` is rounded up to a power of two of at least a page. INVALID_ARGUMENT above 1 GiB,
// RESOURCE_EXHAUSTED when the system has no memory or descriptors left.
absl::StatusOr<RingDescriptors> CreateRing(size_t capacity);

// The writing end. Thread-compatible.
class RingWriter {
 public:
  // INVALID_ARGUMENT when the descriptors are not those of a ring.
  static absl::StatusOr<std::unique_ptr<RingWriter>> Attach(RingDescriptors descriptors);

  // The largest payload that ever fits.
  size_t max_payload() const;

  // Appends one frame whose payload is the concatenation of `parts`; false when there is no room
  // for it now. INVALID_ARGUMENT for a payload above max_payload() (the ring stays usable) or a
  // peer that broke the ring.
  absl::StatusOr<bool> TryWrite(uint32_t kind, absl::Span<const std::string_view> parts);

  // Whether a payload of `size` bytes fits now. INVALID_ARGUMENT for a peer that broke the ring.
  absl::StatusOr<bool> HasRoomFor(size_t size);

  // After TryWrite() found no room: sleeps until there is room for that frame, or the ring is
  // broken, or `timeout` has passed. False for the last.
  bool WaitWritable(absl::Duration timeout);
  // From now on WaitWritable() returns true at once. Any thread may call it, also while another one
  // sleeps there.
  void Interrupt();

  // For event loops. Asks for the doorbell when a payload of `size` bytes fits; false when it fits
  // already or the ring is broken, and no doorbell comes. writable_fd() is readable after the
  // doorbell rang and until ClearDoorbell().
  bool PrepareToSleep(size_t size);
  int writable_fd() const { return writable_.get(); }
  void ClearDoorbell();

  // For who has to know what a reader that is gone has left. Bytes of frames since the start:
  // written, and taken by the reader. INVALID_ARGUMENT for a peer that broke the ring.
  uint64_t written_bytes() const { return tail_; }
  absl::StatusOr<uint64_t> TakenBytes();
  // The payload, of `size` bytes, of the frame that begins at `begin` and has not been taken. The
  // reader could write there, too.
  std::string_view PayloadAt(uint64_t begin, size_t size) const;

 private:
  RingWriter(ShmRingMap map, UniqueFd readable, UniqueFd writable)
      : map_(std::move(map)), readable_(std::move(readable)), writable_(std::move(writable)) {}
  absl::StatusOr<bool> HasRoom(size_t frame_size);
  absl::Status LoadHead();

  ShmRingMap map_;
  const UniqueFd readable_;
  const UniqueFd writable_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;        // As last seen.
  size_t refused_size_ = 0;  // The payload that found no room last.
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
};

// The reading end. Thread-compatible.
class RingReader {
 public:
  // INVALID_ARGUMENT when the descriptors are not those of a ring.
  static absl::StatusOr<std::unique_ptr<RingReader>> Attach(RingDescriptors descriptors);

  // Copies the next frame out; false when there is none. INVALID_ARGUMENT for a peer that broke the
  // ring.
  absl::StatusOr<bool> TryRead(uint32_t* kind, std::string* payload);

  // The same without a copy: `*payload` lies in shared memory, where the writer can still change it
  // until Consume(), so that whoever parses it must read each byte once or copy first.
  absl::StatusOr<bool> Peek(uint32_t* kind, std::string_view* payload);
  void Consume();

  // Sleeps until a frame is there, or the ring is broken, or `timeout` has passed. False for the
  // last.
  bool WaitReadable(absl::Duration timeout);
  // From now on WaitReadable() returns true at once. Any thread may call it, also while another one
  // sleeps there.
  void Interrupt();

  // For event loops. Asks for the doorbell at the next frame; false when there is one already or
  // the ring is broken, and no doorbell comes. readable_fd() is readable after the doorbell rang
  // and until ClearDoorbell().
  bool PrepareToSleep();
  int readable_fd() const { return readable_.get(); }
  void ClearDoorbell();

 private:
  RingReader(ShmRingMap map, UniqueFd readable, UniqueFd writable)
      : map_(std::move(map)), readable_(std::move(readable)), writable_(std::move(writable)) {}
  absl::StatusOr<bool> HasFrame();

  ShmRingMap map_;
  const UniqueFd readable_;
  const UniqueFd writable_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;       // As last seen.
  size_t peeked_size_ = 0;  // Of the whole frame; 0 when none is peeked.
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_RING_H_
