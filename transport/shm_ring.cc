#include "transport/shm_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/sealed_memory.h"
#include "transport/channel.h"

namespace warpline {
namespace {

struct FrameHeader {
  uint32_t size;
  uint32_t kind;
};
constexpr size_t kAlign = 8;
static_assert(sizeof(FrameHeader) == kAlign);

constexpr size_t FrameSize(size_t payload) {
  return sizeof(FrameHeader) + (payload + kAlign - 1) / kAlign * kAlign;
}

absl::Status Broken() { return absl::InvalidArgumentError("the peer broke the shared ring"); }

absl::Status NoDescriptors(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::Status NotDoorbells() { return absl::InvalidArgumentError("not the doorbells of a ring"); }

// A doorbell is one descriptor for both ends of a pipe.
UniqueFd Reopen(int pipe_end) {
  return UniqueFd(
      open(absl::StrCat("/proc/self/fd/", pipe_end).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

UniqueFd MakeDoorbell() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return UniqueFd();
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  return Reopen(ends[0]);
}

// Opens a doorbell for this process alone: with a shared open file the peer could take O_NONBLOCK
// away. The user of a sandbox may not be allowed to, and goes on with what the server gave it.
UniqueFd OwnDoorbell(UniqueFd shared) {
  struct stat info;
  if (fstat(shared.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) return UniqueFd();
  UniqueFd own = Reopen(shared.get());
  return own.valid() ? std::move(own) : std::move(shared);
}

// A full pipe holds a ring already.
void Ring(int doorbell) {
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(doorbell, &byte, 1);
}

void Drain(int doorbell) {
  char bytes[64];
  [[maybe_unused]] const ssize_t got = read(doorbell, bytes, sizeof(bytes));
}

// The order of these two and of the indexes is sequentially consistent: one side stores its index
// and then loads the flag, the other stores the flag and then loads the index. So either the first
// sees the flag and rings, or the second sees the index and does not sleep.
void RingIfAsleep(std::atomic<uint32_t>* sleeps, int doorbell) {
  if (sleeps->load() != 0 && sleeps->exchange(0) != 0) Ring(doorbell);
}

void AnnounceSleep(std::atomic<uint32_t>* sleeps) { sleeps->store(1); }

void PollDoorbell(int doorbell, absl::Time until) {
  const timespec timeout =
      absl::ToTimespec(std::clamp(until - absl::Now(), absl::ZeroDuration(), absl::Hours(1)));
  pollfd entry = {.fd = doorbell, .events = POLLIN, .revents = 0};
  ppoll(&entry, 1, &timeout, nullptr);
}

// Sleeps until `prepare` finds that there is no reason to. Returns whether it did before `timeout`.
template <typename Prepare>
bool WaitFor(int doorbell, absl::Duration timeout, Prepare prepare) {
  const absl::Time until = absl::Now() + timeout;
  while (prepare()) {
    if (absl::Now() >= until) return false;
    PollDoorbell(doorbell, until);
    Drain(doorbell);
  }
  return true;
}

}  // namespace

absl::StatusOr<RingDescriptors> RingDescriptors::Duplicate() const {
  RingDescriptors copy;
  copy.memory = UniqueFd(fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
  copy.readable = UniqueFd(fcntl(readable.get(), F_DUPFD_CLOEXEC, 0));
  copy.writable = UniqueFd(fcntl(writable.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.memory.valid() || !copy.readable.valid() || !copy.writable.valid()) {
    return NoDescriptors("cannot duplicate a ring");
  }
  return copy;
}

absl::StatusOr<RingDescriptors> CreateRing(size_t capacity) {
  if (capacity > ShmRingMap::kMaxCapacity) {
    return absl::InvalidArgumentError("a ring above 1 GiB");
  }
  capacity = std::bit_ceil(std::max(capacity, ShmRingMap::kHeaderSize));
  RingDescriptors ring;
  absl::StatusOr<UniqueFd> memory =
      NewSealedMemory("warpline-ring", ShmRingMap::kHeaderSize + capacity);
  if (!memory.ok()) return memory.status();
  ring.memory = *std::move(memory);
  ring.readable = MakeDoorbell();
  ring.writable = MakeDoorbell();
  if (!ring.readable.valid() || !ring.writable.valid()) return NoDescriptors("cannot make a ring");
  return ring;
}

// Writer

absl::StatusOr<std::unique_ptr<RingWriter>> RingWriter::Attach(RingDescriptors descriptors) {
  absl::StatusOr<ShmRingMap> map = ShmRingMap::Map(descriptors.memory.get());
  if (!map.ok()) return map.status();
  UniqueFd readable = OwnDoorbell(std::move(descriptors.readable));
  UniqueFd writable = OwnDoorbell(std::move(descriptors.writable));
  if (!readable.valid() || !writable.valid()) return NotDoorbells();
  return std::unique_ptr<RingWriter>(
      new RingWriter(*std::move(map), std::move(readable), std::move(writable)));
}

size_t RingWriter::max_payload() const {
  return std::min(kMaxFramePayload, map_.capacity() - sizeof(FrameHeader));
}

absl::Status RingWriter::LoadHead() {
  const uint64_t head = map_.header()->head.load();
  // The reader's index only grows, and never beyond what was written.
  if (head - head_ > tail_ - head_ || head % kAlign != 0) {
    broken_ = true;
    return Broken();
  }
  head_ = head;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RingWriter::TakenBytes() {
  if (broken_) return Broken();
  const absl::Status loaded = LoadHead();
  if (!loaded.ok()) return loaded;
  return head_;
}

std::string_view RingWriter::PayloadAt(uint64_t begin, size_t size) const {
  return {map_.At(begin) + sizeof(FrameHeader), size};
}

absl::StatusOr<bool> RingWriter::HasRoom(size_t frame_size) {
  if (broken_) return Broken();
  if (map_.capacity() - (tail_ - head_) >= frame_size) return true;
  const absl::Status loaded = LoadHead();
  if (!loaded.ok()) return loaded;
  return map_.capacity() - (tail_ - head_) >= frame_size;
}

absl::StatusOr<bool> RingWriter::HasRoomFor(size_t size) { return HasRoom(FrameSize(size)); }

absl::StatusOr<bool> RingWriter::TryWrite(uint32_t kind, absl::Span<const std::string_view> parts) {
  size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  if (size > max_payload()) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of ", size, " bytes for a ring that takes ", max_payload()));
  }
  absl::StatusOr<bool> room = HasRoom(FrameSize(size));
  if (!room.ok()) return room;
  if (!*room) {
    refused_size_ = size;
    return false;
  }

  const FrameHeader header = {static_cast<uint32_t>(size), kind};
  char* out = map_.At(tail_);
  std::memcpy(out, &header, sizeof(header));
  out += sizeof(header);
  for (const std::string_view part : parts) {
    if (!part.empty()) std::memcpy(out, part.data(), part.size());
    out += part.size();
  }
  tail_ += FrameSize(size);
  map_.header()->tail.store(tail_);
  RingIfAsleep(&map_.header()->reader_sleeps, readable_.get());
  return true;
}

bool RingWriter::PrepareToSleep(size_t size) {
  AnnounceSleep(&map_.header()->writer_sleeps);
  const absl::StatusOr<bool> room = HasRoom(FrameSize(size));
  if (room.ok() && !*room) return true;
  map_.header()->writer_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

void RingWriter::ClearDoorbell() { Drain(writable_.get()); }

bool RingWriter::WaitWritable(absl::Duration timeout) {
  return WaitFor(writable_.get(), timeout, [this] {
    return !interrupted_.load(std::memory_order_acquire) && PrepareToSleep(refused_size_);
  });
}

void RingWriter::Interrupt() {
  interrupted_.store(true, std::memory_order_release);
  Ring(writable_.get());
}

// Reader

absl::StatusOr<std::unique_ptr<RingReader>> RingReader::Attach(RingDescriptors descriptors) {
  absl::StatusOr<ShmRingMap> map = ShmRingMap::Map(descriptors.memory.get());
  if (!map.ok()) return map.status();
  UniqueFd readable = OwnDoorbell(std::move(descriptors.readable));
  UniqueFd writable = OwnDoorbell(std::move(descriptors.writable));
  if (!readable.valid() || !writable.valid()) return NotDoorbells();
  return std::unique_ptr<RingReader>(
      new RingReader(*std::move(map), std::move(readable), std::move(writable)));
}

absl::StatusOr<bool> RingReader::HasFrame() {
  if (broken_) return Broken();
  if (tail_ != head_) return true;
  const uint64_t tail = map_.header()->tail.load();
  if (tail - head_ > map_.capacity() || tail % kAlign != 0) {
    broken_ = true;
    return Broken();
  }
  tail_ = tail;
  return tail_ != head_;
}

absl::StatusOr<bool> RingReader::Peek(uint32_t* kind, std::string_view* payload) {
  absl::StatusOr<bool> there = HasFrame();
  if (!there.ok() || !*there) return there;
  // One read of the header: the writer may change it afterwards.
  FrameHeader header;
  const auto* shared = reinterpret_cast<const std::atomic<uint64_t>*>(map_.At(head_));
  const uint64_t word = shared->load(std::memory_order_relaxed);
  std::memcpy(&header, &word, sizeof(header));
  if (header.size > kMaxFramePayload || FrameSize(header.size) > tail_ - head_) {
    broken_ = true;
    return Broken();
  }
  *kind = header.kind;
  *payload = std::string_view(map_.At(head_) + sizeof(header), header.size);
  peeked_size_ = FrameSize(header.size);
  return true;
}

void RingReader::Consume() {
  head_ += std::exchange(peeked_size_, 0);
  map_.header()->head.store(head_);
  // A writer without room is woken when half of the ring is free, and not for every frame.
  if (tail_ - head_ <= map_.capacity() / 2) {
    RingIfAsleep(&map_.header()->writer_sleeps, writable_.get());
  }
}

absl::StatusOr<bool> RingReader::TryRead(uint32_t* kind, std::string* payload) {
  std::string_view shared;
  absl::StatusOr<bool> there = Peek(kind, &shared);
  if (!there.ok() || !*there) return there;
  payload->assign(shared.data(), shared.size());
  Consume();
  return true;
}

bool RingReader::PrepareToSleep() {
  AnnounceSleep(&map_.header()->reader_sleeps);
  const absl::StatusOr<bool> there = HasFrame();
  if (there.ok() && !*there) return true;
  map_.header()->reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

void RingReader::ClearDoorbell() { Drain(readable_.get()); }

bool RingReader::WaitReadable(absl::Duration timeout) {
  return WaitFor(readable_.get(), timeout, [this] {
    return !interrupted_.load(std::memory_order_acquire) && PrepareToSleep();
  });
}

void RingReader::Interrupt() {
  interrupted_.store(true, std::memory_order_release);
  Ring(readable_.get());
}

}  // namespace warpline
