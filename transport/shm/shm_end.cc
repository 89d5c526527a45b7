#include "transport/shm/shm_end.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "transport/shm/shm_packets.h"

namespace warpline::shm_internal {
namespace {

// How often a loop that does not sleep asks the socket, which takes a system call.
constexpr std::chrono::milliseconds kLookInterval{1};

}  // namespace

absl::StatusOr<std::unique_ptr<ShmEnd>> ShmEnd::Create(UniqueFd socket, RingDescriptors to_write,
                                                       RingDescriptors to_read) {
  auto writer = RingWriter::Attach(std::move(to_write));
  if (!writer.ok()) return writer.status();
  if ((*writer)->max_payload() < kMaxFramePayload) {
    return absl::InvalidArgumentError("a ring that does not take every frame");
  }
  auto reader = RingReader::Attach(std::move(to_read));
  if (!reader.ok()) return reader.status();
  auto bell = LoopBell::NewFd();
  if (!bell.ok()) return bell.status();
  return std::unique_ptr<ShmEnd>(
      new ShmEnd(std::move(socket), *std::move(bell), *std::move(writer), *std::move(reader)));
}

ShmEnd::ShmEnd(UniqueFd socket, UniqueFd bell, std::unique_ptr<RingWriter> writer,
               std::unique_ptr<RingReader> reader)
    : socket_(std::move(socket)),
      bell_(std::move(bell)),
      writer_(std::move(writer)),
      reader_(std::move(reader)) {}

void ShmEnd::LookAtSocket() {
  if (ended_.has_value() || broken_.has_value()) return;
  auto received = Receive(socket_.get());
  if (!received.ok()) {
    broken_ = received.status();
  } else if (received->has_value()) {
    ended_ = (*received)->status;
  }
}

// The end, and what the kernel says of a peer that is gone, come after the frames in the ring: who
// has sent its last word has put all its frames before.
LinkEnd::Taken ShmEnd::Take(Frame* frame, absl::Status* why) {
  const auto read = [&]() RUNS_ON(channel_loop) {
    const absl::StatusOr<bool> got = reader_->TryRead(&frame->kind, &frame->payload);
    if (!got.ok() && !broken_.has_value()) broken_ = got.status();
    return got.ok() && *got;
  };
  if (read()) return Taken::kFrame;
  if (!ended_.has_value() && !broken_.has_value()) {
    const Clock::time_point now = Clock::now();
    if (now < next_look_) return Taken::kNothing;
    next_look_ = now + kLookInterval;
    LookAtSocket();
    if (read()) return Taken::kFrame;
  }
  if (ended_.has_value()) {
    *why = *ended_;
    return Taken::kEnd;
  }
  if (!broken_.has_value()) return Taken::kNothing;
  *why = *broken_;
  return Taken::kBroken;
}

bool ShmEnd::HasRoom() {
  const absl::StatusOr<bool> room = writer_->HasRoomFor(kMaxFramePayload);
  if (!room.ok() && !broken_.has_value()) broken_ = room.status();
  return room.ok() && *room;
}

void ShmEnd::Put(Frame frame) {
  const std::string_view payload = frame.bytes();
  const absl::StatusOr<bool> put = writer_->TryWrite(frame.kind, {&payload, 1});
  if (!put.ok() && !broken_.has_value()) broken_ = put.status();
}

void ShmEnd::PutEnd(const absl::Status& status) { SendStatus(socket_.get(), status); }

void ShmEnd::Break() { shutdown(socket_.get(), SHUT_RDWR); }

void ShmEnd::BeginSleep() {
  bell_.Announce();
  // Whether the doorbells ring or not: the loop looks once more before it sleeps.
  reader_->PrepareToSleep();
  writer_->PrepareToSleep(kMaxFramePayload);
  // Whoever sleeps has time to ask.
  next_look_ = Clock::time_point();
  rung_ = readable_ = writable_ = socket_ready_ = false;
  socket_silent_ = ended_.has_value() || broken_.has_value();
}

void ShmEnd::Sleep(std::optional<std::chrono::nanoseconds> at_most) {
  pollfd fds[] = {{.fd = bell_.fd(), .events = POLLIN, .revents = 0},
                  {.fd = reader_->readable_fd(), .events = POLLIN, .revents = 0},
                  {.fd = writer_->writable_fd(), .events = POLLIN, .revents = 0},
                  {.fd = socket_silent_ ? -1 : socket_.get(), .events = POLLIN, .revents = 0}};
  timespec timeout;
  if (at_most.has_value()) timeout = absl::ToTimespec(absl::FromChrono(*at_most));
  if (ppoll(fds, 4, at_most.has_value() ? &timeout : nullptr, nullptr) <= 0) return;
  rung_ = fds[0].revents != 0;
  readable_ = fds[1].revents != 0;
  writable_ = fds[2].revents != 0;
  socket_ready_ = fds[3].revents != 0;
}

void ShmEnd::EndSleep() {
  bell_.Retract(rung_);
  if (readable_) reader_->ClearDoorbell();
  if (writable_) writer_->ClearDoorbell();
  if (socket_ready_) LookAtSocket();
}

}  // namespace warpline::shm_internal
