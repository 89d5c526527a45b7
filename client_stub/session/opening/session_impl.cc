#include "client_stub/session/opening/session_impl.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/session/handshake/arena_search.h"
#include "common/log/log.h"
#include "common/process_identity.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

// One CopyFromDevice; longer copies are several.
constexpr uint64_t kMaxCopyOut = 1ull << 30;

constexpr std::chrono::microseconds kSpin(40);

// Spinning on the only processor keeps the loop from answering.
std::chrono::nanoseconds ChooseSpin() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1) {
    return std::chrono::nanoseconds(0);
  }
  return kSpin;
}

// For counters that only the holder of a lock writes: no locked instruction.
void AddUnshared(std::atomic<uint64_t>* counter) {
  counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void AddShared(std::atomic<uint64_t>* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

}  // namespace

SessionImpl::SessionImpl(ArenaReservation arena) : arena_(std::move(arena)), spin_(ChooseSpin()) {}

SessionImpl::~SessionImpl() {
  closing_.store(true);
  {
    MutexLock lock(&state_mu_);
    stopping_ = true;
    state_changed_.NotifyAll();
  }
  if (redialer_.joinable()) redialer_.join();
  DropChannel();
}

absl::Status SessionImpl::Start(const SessionOptions& options, const Dialer& dialer) {
  output_.SetPrinter(options.printer);
  if (!queue_.ok()) return absl::ResourceExhaustedError("no memory for the session's commands");
  dialer_ = dialer;
  resume_for_ = options.resume;
  endpoints_ = {DialTarget{options.endpoint}};
  SendControl({kHello, MakeHello(options, {arena_.base(), arena_.bytes()})});
  auto channel = dialer_(endpoints_.front(), this, options.deadline);
  if (!channel.ok()) return channel.status();
  owned_channel_ = *std::move(channel);
  channel_.Set(owned_channel_.get());
  WakeChannel();

  if (const absl::Status opened = AwaitWelcome(options.open_deadline); !opened.ok()) return opened;
  AddShared(&counters_.open_round_trips);
  queue_.SetWindow(welcomed_.window_bytes, welcomed_.window_commands);
  if (!welcomed_.host_memory_socket.empty() && welcomed_.boot_id == BootId()) {
    host_memory_ = std::make_unique<HostMemoryLink>(welcomed_.host_memory_socket, welcomed_.session,
                                                    welcomed_.secret);
  }
  OfferOtherAddress(options);
  return absl::OkStatus();
}

CudaResult SessionImpl::ShareHostMemory(uint64_t va, uint64_t bytes, bool give_back, UniqueFd* fd) {
  if (host_memory_ == nullptr) return CudaResult::kNotSupported;
  return host_memory_->Request(va, bytes, give_back, fd);
}

absl::Status SessionImpl::AwaitWelcome(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&state_mu_);
  while (!answer_.has_value()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat("the server accepted the connection but did not open a session within ",
                       absl::FormatDuration(timeout)));
    }
    state_changed_.WaitWithTimeout(&state_mu_, left);
  }
  return *answer_;
}

bool SessionImpl::LostWhileOpening() {
  MutexLock lock(&state_mu_);
  return lost_opening_;
}

void SessionImpl::SendControl(Frame frame) {
  control_.Push(std::move(frame));
  WakeChannel();
}

void SessionImpl::EndGroup() {
  queue_.EndGroup();
  WakeChannel();
}

void SessionImpl::CountCommand(CommandId id) {
  AddUnshared(&counters_.commands);
  AddUnshared(&counters_.by_command[static_cast<int>(id)]);
  if (id == CommandId::kLaunch) AddUnshared(&counters_.launches);
}

uint64_t SessionImpl::Submit(CommandId id, const void* body, size_t body_bytes,
                             std::string_view tail, const ExpectedReply* expected) {
  if (error() != CudaResult::kSuccess) return 0;
  const size_t bytes = AlignWire(sizeof(CommandHeader) + body_bytes + tail.size());
  if (tail.size() > kMaxTail) {
    if (const LogPermit permit = log_.Ask(kNotSplitLine)) {
      permit.Error("command ", kCommandTable[static_cast<int>(id) - 1].name, " of ", tail.size(),
                   " bytes was not split; not sent");
    }
    return 0;
  }
  uint64_t seq = 0;
  {
    CommandQueue::Turn turn(&queue_);
    if (!queue_.HasRoom(bytes)) {
      AddUnshared(&counters_.window_waits);
      WakeChannel();
      if (!queue_.WaitForRoom(bytes)) return 0;
    }
    if (expected != nullptr) {
      CudaResult lost;
      if (!replies_.Expect(queue_.next_seq(), *expected, &lost)) return 0;
    }
    seq = queue_.next_seq();
    queue_.Put(id, body, body_bytes, tail);
    CountCommand(id);
    // A group leaves at its end; a thread that is about to wait cannot wait for that.
    if (!turn.grouped() || expected != nullptr) channel_.WakeExclusively();
  }
  return seq;
}

bool SessionImpl::Knows(CommandId id) {
  if (FindCommand(id).version <= welcomed_.version) return true;
  if (!said_unknown_.exchange(true)) {
    LogWarning("the server is older than this client (protocol ", welcomed_.version, ") and lacks ",
               FindCommand(id).name, ", maybe more: what needs it is not supported");
  }
  return false;
}

uint64_t SessionImpl::Append(CommandId id, const void* body, size_t body_bytes,
                             std::string_view tail) {
  return Knows(id) ? Submit(id, body, body_bytes, tail, nullptr) : 0;
}

void SessionImpl::CountWait(WaitKind kind, CommandId id) {
  switch (kind) {
    case WaitKind::kRoundTrip:
      AddShared(&counters_.round_trips);
      AddShared(&counters_.round_trips_by_command[static_cast<int>(id)]);
      return;
    case WaitKind::kSynchronize:
      return AddShared(&counters_.synchronizes);
    case WaitKind::kCopyOut:
      return AddShared(&counters_.copies_out);
    case WaitKind::kFree:
      return AddShared(&counters_.free_waits);
  }
}

CudaResult SessionImpl::TakeDeferred() {
  output_.Write();
  if (deferred_.load(std::memory_order_relaxed) == 0) return CudaResult::kSuccess;
  return static_cast<CudaResult>(deferred_.exchange(0, std::memory_order_relaxed));
}

CudaResult SessionImpl::RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                                  std::string_view tail, std::string* fields) {
  if (!Knows(id)) return error() == CudaResult::kSuccess ? CudaResult::kNotSupported : error();
  ReplyWaiter waiter(1, fields);
  const ExpectedReply expected = {.command = id, .waiter = &waiter};
  if (Submit(id, body, body_bytes, tail, &expected) == 0) {
    const CudaResult lost = error();
    return lost == CudaResult::kSuccess ? CudaResult::kInvalidValue : lost;
  }
  CountWait(kind, id);
  const CudaResult result = waiter.Wait(spin_);
  if (result != CudaResult::kSuccess) output_.Write();
  if (result != CudaResult::kSuccess || kind == WaitKind::kRoundTrip || kind == WaitKind::kFree) {
    return result;
  }
  return TakeDeferred();
}

CudaResult SessionImpl::CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                                uint64_t* seq) {
  if (seq != nullptr) *seq = last_seq();
  if (error() != CudaResult::kSuccess) return error();
  if (bytes == 0) return CudaResult::kSuccess;
  const int pieces = static_cast<int>((bytes + kMaxCopyOut - 1) / kMaxCopyOut);
  ReplyWaiter waiter(pieces);
  for (int i = 0; i < pieces; ++i) {
    const uint64_t offset = i * kMaxCopyOut;
    const cmd::CopyFromDevice command = {stream, src + offset,
                                         std::min(kMaxCopyOut, bytes - offset)};
    const ExpectedReply expected = {.command = CommandId::kCopyFromDevice,
                                    .waiter = wait ? &waiter : nullptr,
                                    .destination = static_cast<char*>(dst) + offset,
                                    .bytes = command.bytes};
    const uint64_t sent =
        Submit(CommandId::kCopyFromDevice, &command, sizeof(command), {}, &expected);
    if (sent == 0) {
      if (!wait) return error();
      waiter.Abandon(pieces - i, error());
      break;
    }
    if (seq != nullptr) *seq = sent;
  }
  CountWait(WaitKind::kCopyOut, CommandId::kCopyFromDevice);
  if (!wait) return CudaResult::kSuccess;
  const CudaResult result = waiter.Wait(spin_);
  output_.Write();
  return result == CudaResult::kSuccess ? TakeDeferred() : result;
}

CudaResult SessionImpl::CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                                   const BoxExtent& extent, bool wait, uint64_t* seq) {
  const cmd::CopyBoxFromDevice command = {stream,       src.address,   src.pitch,   src.slice,
                                          extent.width, extent.height, extent.depth};
  return BoxOut(CommandId::kCopyBoxFromDevice, &command, sizeof(command), dst, extent, wait, seq);
}

CudaResult SessionImpl::CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst,
                                     bool wait, uint64_t* seq) {
  return BoxOut(CommandId::kCopyFromArray, &command, sizeof(command), dst,
                {command.width, command.height, command.depth}, wait, seq);
}

CudaResult SessionImpl::BoxOut(CommandId id, const void* body, size_t body_bytes,
                               const BoxPlace& dst, const BoxExtent& extent, bool wait,
                               uint64_t* seq) {
  *seq = last_seq();
  if (error() != CudaResult::kSuccess) return error();
  ReplyWaiter waiter(1);
  const ExpectedReply expected = {.command = id,
                                  .waiter = wait ? &waiter : nullptr,
                                  .bytes = extent.bytes(),
                                  .box = dst,
                                  .extent = extent};
  const uint64_t sent = Submit(id, body, body_bytes, {}, &expected);
  if (sent == 0) return error();
  *seq = sent;
  CountWait(WaitKind::kCopyOut, id);
  if (!wait) return CudaResult::kSuccess;
  const CudaResult result = waiter.Wait(spin_);
  return result == CudaResult::kSuccess ? TakeDeferred() : result;
}

void SessionImpl::SetHostDueCallback(std::function<void(uint64_t token)> callback) {
  MutexLock lock(&host_due_mu_);
  host_due_callback_ = std::move(callback);
}

void SessionImpl::HostDue(uint64_t token) {
  MutexLock lock(&host_due_mu_);
  if (host_due_callback_) host_due_callback_(token);
}

void SessionImpl::SetFreedCallback(uint32_t device, std::function<void(uint64_t token)> callback) {
  MutexLock lock(&freed_mu_);
  freed_callbacks_[device] = std::move(callback);
}

CudaResult SessionImpl::AskForMemory(warpline_internal::MemoryRequest request,
                                     GrantWaiter* waiter) {
  if (error() != CudaResult::kSuccess) return error();
  waiter->va = request.va();
  waiter->min_bytes = request.min_bytes();
  waiter->want_bytes = request.want_bytes();
  CudaResult lost;
  const uint64_t id = grants_.Expect(waiter, &lost);
  if (id == 0) return lost;
  request.set_id(id);
  AddShared(&counters_.memory_round_trips);
  SendControl({kMemoryRequest, request.SerializeAsString()});
  waiter->done.Wait(spin_);
  return waiter->result;
}

CudaResult SessionImpl::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                      Grant* grant) {
  GrantWaiter waiter;
  warpline_internal::MemoryRequest request;
  request.set_va(va);
  request.set_min_bytes(min_bytes);
  request.set_want_bytes(want_bytes);
  const CudaResult result = AskForMemory(std::move(request), &waiter);
  if (result == CudaResult::kSuccess) *grant = waiter.grant;
  return result;
}

void SessionImpl::NoteRefusedMemory(CudaResult error, std::string_view why) {
  AddShared(&counters_.memory_refusals);
  const std::string line = refusals_.LineFor(error, why);
  if (!line.empty()) LogWarning(line);
}

void SessionImpl::ReturnMemory(const Grant& grant) {
  if (error() != CudaResult::kSuccess) return;
  warpline_internal::MemoryReturn message;
  message.set_va(grant.va);
  message.set_bytes(grant.bytes);
  SendControl({kMemoryReturn, message.SerializeAsString()});
}

CudaResult SessionImpl::ReadBack(void* dst, uint64_t va, uint64_t bytes) {
  constexpr absl::Duration kDeadline = absl::Seconds(60);
  if (error() == CudaResult::kSuccess) return CudaResult::kIllegalState;
  for (uint64_t done = 0; done < bytes; done += kMaxReadBack) {
    const uint64_t piece = std::min(kMaxReadBack, bytes - done);
    const uint64_t id = read_backs_.Expect(static_cast<char*>(dst) + done, piece);
    if (id == 0) return error();
    warpline_internal::ReadBack request;
    request.set_id(id);
    request.set_va(va + done);
    request.set_bytes(piece);
    SendControl({kReadBack, request.SerializeAsString()});
    const CudaResult result = read_backs_.Wait(id, kDeadline);
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

void SessionImpl::Close(absl::Duration deadline) {
  const absl::Cleanup finish = [this] { log_.Finish(); };
  const absl::Time end = absl::Now() + deadline;
  closing_.store(true);
  // A session that has failed has nothing left to say.
  const bool healthy = error_.exchange(static_cast<int>(CudaResult::kDeinitialized)) == 0;
  flushing_.store(true);
  WakeChannel();
  const auto wait_until = [&](const auto& done) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    while (!closed_ && !done()) {
      const absl::Duration left = end - absl::Now();
      if (left <= absl::ZeroDuration()) return;
      state_changed_.WaitWithTimeout(&state_mu_, left);
    }
  };
  {
    MutexLock lock(&state_mu_);
    wait_until([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !healthy || (queue_.AllReceived() && link_ == LinkState::kUp);
    });
    if (closed_) return;
    goodbye_ = true;
    if (link_ != LinkState::kUp) {
      // Nobody to say it to: the server notices by itself.
      stopping_ = true;
      state_changed_.NotifyAll();
      return;
    }
  }
  SendControl({kClose, std::string()});
  CloseChannel(absl::OkStatus());
  MutexLock lock(&state_mu_);
  wait_until([] { return false; });
}

void SessionImpl::CloseChannel(const absl::Status& status) { channel_.Close(status); }

namespace {

// Opens a session with the arena at `place`, which the process must have free. As often as it takes
// within `options.deadline` while the connection is lost before the server has answered; and, where
// a session of ours was refused before and may still be ending, while there is no room.
absl::StatusOr<std::unique_ptr<SessionImpl>> OpenWithArena(const ArenaCandidate& place,
                                                           ArenaReservation arena,
                                                           const SessionOptions& options,
                                                           const Dialer& dialer,
                                                           bool refused_before) {
  // Between attempts after a lost connection or a server that takes nobody at the moment; doubles.
  constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
  constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
  absl::Duration pause = kFirstPause;
  const absl::Time end = absl::Now() + options.deadline;
  while (true) {
    SessionOptions attempt = options;
    attempt.deadline = absl::Ceil(end - absl::Now(), absl::Milliseconds(100));
    auto session = std::make_unique<SessionImpl>(std::move(arena));
    const absl::Status status = session->Start(attempt, dialer);
    if (status.ok()) return session;
    // A connection may break while the session opens, and then there is nothing to resume. Whoever
    // got an answer, a redirect among them, must not ask again: a scheduler gave a lease with it.
    const bool room_is_coming =
        refused_before && RefusalOf(status).reason() == warpline_internal::Refusal::NO_ROOM;
    const bool again = session->LostWhileOpening() || room_is_coming;
    if (!again || absl::Now() + pause >= end) return status;
    session.reset();
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
    arena = ArenaReservation::At(place.base, place.bytes);
    if (!arena.held()) return ArenaUnavailable("another thread of this process took it");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionImpl>> OpenSession(const SessionOptions& options,
                                                         const Dialer& dialer) {
  ArenaSearch search(ArenaCandidates());
  while (const auto place = search.Next()) {
    ArenaReservation arena = ArenaReservation::At(place->base, place->bytes);
    if (!arena.held()) continue;
    auto session = OpenWithArena(*place, std::move(arena), options, dialer, search.refusals() > 0);
    if (session.ok() || !search.OnRefused(session.status())) return session;
  }
  return search.Failure();
}

}  // namespace warpline::stub
