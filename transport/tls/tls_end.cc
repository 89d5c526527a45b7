#include "transport/tls/tls_end.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/status_packet.h"
#include "transport/tcp/connect.h"
#include "transport/tls/tls_connect.h"
#include "transport/tls/tls_hello.h"

namespace warpline {
namespace {

// In a header's size: the frame is the connection's own, and its kind one of these.
constexpr uint32_t kOwnFrame = uint32_t{1} << 31;
constexpr uint32_t kWelcomeFrame = 1;
constexpr uint32_t kEndFrame = 2;  // The last one: a status.

// The records of a large frame leave one by one: its other end is waited for.
constexpr size_t kRecord = size_t{16} << 10;
// No more is put while so much has not left.
constexpr size_t kMostOutgoing = size_t{1} << 20;
// How long an end that is destroyed waits for its last bytes to leave.
constexpr absl::Duration kLastWords = absl::Seconds(1);

}  // namespace

TlsEnd::TlsEnd(std::unique_ptr<TlsStream> stream, UniqueFd bell)
    : stream_(std::move(stream)), bell_(std::move(bell)) {}

absl::StatusOr<std::unique_ptr<TlsEnd>> TlsEnd::Create(std::unique_ptr<TlsStream> stream) {
  auto bell = LoopBell::NewFd();
  if (!bell.ok()) return bell.status();
  return std::unique_ptr<TlsEnd>(new TlsEnd(std::move(stream), *std::move(bell)));
}

absl::StatusOr<std::unique_ptr<TlsEnd>> TlsEnd::Connect(absl::string_view places,
                                                        const std::string& secret,
                                                        absl::Time until) {
  auto stream = ConnectTls(places, secret, until);
  if (!stream.ok()) return stream.status();
  const absl::Status greeted = SayHello(stream->get(), kSessionSlot);
  if (!greeted.ok()) return greeted;
  auto end = Create(*std::move(stream));
  if (!end.ok()) return end.status();
  const LoopScope scope(&channel_loop);
  const absl::Status welcomed = (*end)->AwaitWelcome(until);
  if (!welcomed.ok()) return welcomed;
  return end;
}

TlsEnd::~TlsEnd() {
  const LoopScope scope(&channel_loop);
  const absl::Time until = absl::Now() + kLastWords;
  while (!broken_.has_value() && wants_room_.load() && absl::Now() < until) {
    (void)PollSocket(stream_->fd(), POLLOUT, PollMilliseconds(until));
    Flush();
  }
  if (!said_end_ || broken_.has_value()) return;
  // A socket that is closed with bytes that nobody has read takes back what the other end has not.
  (void)shutdown(stream_->fd(), SHUT_WR);
  std::array<char, 4096> rest;
  for (absl::StatusOr<size_t> got = size_t{0}; got.ok() && absl::Now() < until;
       got = stream_->Read(rest.data(), rest.size())) {
    if (*got == 0) (void)PollSocket(stream_->fd(), POLLIN, PollMilliseconds(until));
  }
}

absl::Status TlsEnd::AwaitWelcome(absl::Time until) {
  expects_welcome_ = true;
  while (!Receive() && !broken_.has_value()) {
    if (absl::Now() >= until) return absl::UnavailableError("the relay does not answer");
    (void)PollSocket(stream_->fd(), POLLIN, PollMilliseconds(until));
  }
  if (broken_.has_value()) return *broken_;
  if (ended_.has_value() && !ended_->ok()) return *ended_;
  if (expects_welcome_) return absl::UnavailableError("the relay does not answer");
  header_got_ = 0;
  return absl::OkStatus();
}

void TlsEnd::Welcome() { PutBytes(kWelcomeFrame, kOwnFrame, {}); }

void TlsEnd::BreakWith(const absl::Status& why) {
  if (!broken_.has_value()) broken_ = why;
}

bool TlsEnd::Fill(void* to, size_t bytes, size_t* done) {
  while (*done < bytes) {
    const auto got = stream_->Read(static_cast<char*>(to) + *done, bytes - *done);
    if (!got.ok()) BreakWith(got.status());
    if (!got.ok() || *got == 0) return false;
    *done += *got;
  }
  return true;
}

bool TlsEnd::Receive() {
  if (header_got_ < sizeof(header_)) {
    if (!Fill(&header_, sizeof(header_), &header_got_)) return false;
    own_ = (header_.bytes & kOwnFrame) != 0;
    header_.bytes &= ~kOwnFrame;
    if (header_.bytes > kMaxFramePayload) {
      BreakWith(absl::InvalidArgumentError(
          absl::StrCat("frame of ", header_.bytes, " bytes is above the size limit")));
      return false;
    }
    payload_.resize(header_.bytes);
    payload_got_ = 0;
  }
  if (!Fill(payload_.data(), payload_.size(), &payload_got_)) return false;
  if (!own_) return true;
  absl::Status status;
  if (header_.kind == kWelcomeFrame && expects_welcome_) {
    expects_welcome_ = false;
  } else if (header_.kind == kEndFrame && DecodeStatus(payload_, &status)) {
    ended_ = status;
  } else {
    BreakWith(absl::InvalidArgumentError("a frame of no known kind"));
  }
  return true;
}

LinkEnd::Taken TlsEnd::Take(Frame* frame, absl::Status* why) {
  wants_bytes_.store(true, std::memory_order_relaxed);
  if (wants_room_.load(std::memory_order_relaxed)) Flush();
  if (!ended_.has_value() && !broken_.has_value() && Receive() && !own_) {
    frame->kind = header_.kind;
    frame->payload = std::move(payload_);
    payload_.clear();
    header_got_ = 0;
    // There may be more in memory, and the handler may have no room for this one.
    wants_bytes_.store(false, std::memory_order_relaxed);
    return Taken::kFrame;
  }
  // After the end there is nothing to wait for.
  wants_bytes_.store(!ended_.has_value() && !broken_.has_value(), std::memory_order_relaxed);
  if (ended_.has_value()) {
    *why = *ended_;
    return Taken::kEnd;
  }
  if (!broken_.has_value()) return Taken::kNothing;
  wants_room_.store(false, std::memory_order_relaxed);
  *why = *broken_;
  return Taken::kBroken;
}

bool TlsEnd::HasRoom() {
  if (wants_room_.load(std::memory_order_relaxed)) Flush();
  return !broken_.has_value() && outgoing_.size() - sent_ < kMostOutgoing;
}

void TlsEnd::PutBytes(uint32_t kind, uint32_t own, std::string_view payload) {
  const Header header = {kind, static_cast<uint32_t>(payload.size()) | own};
  outgoing_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  outgoing_.append(payload);
  Flush();
}

void TlsEnd::Put(Frame frame) { PutBytes(frame.kind, /*own=*/0, frame.bytes()); }

void TlsEnd::PutEnd(const absl::Status& status) {
  said_end_ = true;
  PutBytes(kEndFrame, kOwnFrame, EncodeStatus(status));
}

void TlsEnd::GoMute() {
  mute_ = true;
  outgoing_.clear();
  sent_ = 0;
  wants_room_.store(false, std::memory_order_relaxed);
}

void TlsEnd::Flush() {
  if (mute_) return GoMute();
  while (sent_ < outgoing_.size() && !broken_.has_value()) {
    const auto put =
        stream_->Write(outgoing_.data() + sent_, std::min(outgoing_.size() - sent_, kRecord));
    if (!put.ok()) return GoMute();
    if (*put == 0) break;
    sent_ += *put;
  }
  bool left = false;
  if (sent_ == outgoing_.size()) {
    outgoing_.clear();
    sent_ = 0;
    const auto flushed = stream_->Flush();
    if (!flushed.ok()) return GoMute();
    left = *flushed;
  } else if (sent_ >= kMostOutgoing) {
    outgoing_.erase(0, sent_);
    sent_ = 0;
  }
  wants_room_.store(!left, std::memory_order_relaxed);
}

void TlsEnd::Break() {
  BreakWith(absl::CancelledError("the connection was broken off"));
  stream_->Shut();
}

void TlsEnd::BeginSleep() {
  bell_.Announce();
  rung_ = false;
}

// The loop has taken all that was there before it sleeps, unless its handler has no room.
void TlsEnd::Sleep(std::optional<std::chrono::nanoseconds> at_most) {
  const bool bytes = wants_bytes_.load(std::memory_order_relaxed);
  const bool room = wants_room_.load(std::memory_order_relaxed);
  pollfd fds[] = {{.fd = bell_.fd(), .events = POLLIN, .revents = 0},
                  {.fd = bytes || room ? stream_->fd() : -1,
                   .events = static_cast<short>((bytes ? POLLIN : 0) | (room ? POLLOUT : 0)),
                   .revents = 0}};
  timespec timeout;
  if (at_most.has_value()) timeout = absl::ToTimespec(absl::FromChrono(*at_most));
  if (ppoll(fds, 2, at_most.has_value() ? &timeout : nullptr, nullptr) <= 0) return;
  rung_ = fds[0].revents != 0;
}

}  // namespace warpline
