// The part of Session that hands it over to another server, and goes on with what another server
// handed over.
//
// First the client is sent away, so that no frame comes any more. Then the session is suspended,
// and the session's link knows of every frame that either end has. The client, which tries to
// resume, finds the other server at the same numbers.
#include <fcntl.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "server/gpu_server/leases/placement.h"
#include "server/gpu_server/session/session.h"
#include "server/hostlink/handover/journal_file.h"
#include "transport/channel_loop.h"

namespace warpline::server {

using warpline_internal::SavedSession;

namespace {

constexpr size_t kUuidBytes = 16;
// Between looks at the replies of a worker that comes to rest.
constexpr absl::Duration kPoll = absl::Milliseconds(1);

struct OriginWords {
  const char* reason;
  const char* from;  // In the log.
};

OriginWords WordsOf(Origin origin) {
  switch (origin) {
    case Origin::kOtherServer:
      return {"it has moved here", "moved"};
    case Origin::kCheckpoint:
      return {"it was restored from a checkpoint", "checkpoint"};
    default:
      return {"the server has started anew", "saved"};
  }
}

absl::StatusOr<UniqueFd> Duplicate(int fd) {
  UniqueFd duplicate(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) return absl::ResourceExhaustedError("no descriptor is left");
  return duplicate;
}

}  // namespace

std::string Session::WhyNotSaved(Heir heir) {
  if (!Serving()) return "it is not open";
  if (IsGuarded(hello_)) return "it is of the guarded tier, whose sessions end with their server";
  if (!terms_.resumable) return "its client cannot resume it";
  if (heir == Heir::kOtherServer && (hello_.features() & kFeatureMoves) == 0) {
    return "its client is too old to follow it";
  }
  if (heir != Heir::kNextServer && (!SharedWithClient().empty() || !awaited_.empty())) {
    return "it shares host memory with its client, which is on this server's host";
  }
  return WhyNotReplaceable(Standing(), /*saves_variables=*/true);
}

void Session::Save(Heir heir, absl::Duration deadline, Saved saved) {
  std::string why = WhyNotSaved(heir);
  if (saved_ || handing_over()) why = "it is being saved already";
  if (!why.empty()) return saved(absl::FailedPreconditionError(why));
  saved_ = std::move(saved);
  save_deadline_ = deadline;
  heir_ = heir;
  handed_over_ = relay_gone_ = false;
  // Without a client nothing wakes the session while it is suspended, and no bytes come to its
  // staging memory after those that are saved.
  const absl::Status saves = absl::UnavailableError("the server saves its sessions");
  handing_over_.store(true, std::memory_order_release);
  port_->HandOver(saves);
  bulk_->Hold(saves);
  relay_.End();
  // The relay is reaped by then.
  parts_.children->spawner()->Post([control = parts_.control, self = shared_from_this()] {
    control->Post([self] {
      control_loop.AssertOnLoop();
      self->relay_gone_ = true;
      self->AwaitHandedOver();
    });
  });
}

void Session::AwaitHandedOver() {
  if (!relay_gone_ || port_->attached()) return;
  // Behind all that the channel has posted.
  parts_.control->Post([self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->OnHandedOver();
  });
}

void Session::OnHandedOver() {
  if (!saved_ || std::exchange(handed_over_, true)) return;
  if (state_ == State::kSuspended && !paging_.away()) {
    return StopSaving(absl::AbortedError("it is about to go on"));
  }
  if (state_ == State::kSuspended) return ShowSaved();
  if (state_ != State::kOpen) return StopSaving(absl::AbortedError("its worker is being replaced"));
  if (suspension_.under_way() || paging_.leaving()) {
    return StopSaving(absl::AbortedError("its memory is about to leave"));
  }
  suspension_.Begin(save_deadline_, [this](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (!saved_) return;
    if (status.ok()) return ShowSaved();
    // It goes on once it has been answered.
    const bool busy = holdings_.devices().has_requests();
    StopSaving(busy ? absl::AbortedError("it asks for memory") : status);
  });
  KeepFramesUntilItRests();
}

void Session::KeepFramesUntilItRests() {
  if (!saved_ || !handed_over_ || !suspension_.under_way()) return;
  if (const absl::Status kept = KeepFrames(); !kept.ok()) return suspension_.Forget(kept);
  parts_.control->RunAfter(kPoll, [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->KeepFramesUntilItRests();
  });
}

absl::Status Session::KeepFrames() {
  // There is no channel, and none comes: its part is this loop's.
  const LoopScope scope(&channel_loop);
  SessionLink& link = port_->link();
  Frame frame;
  while (port_->Pop(&frame)) {
    if (IsCountedToClient(frame.kind)) link.OnSend(&frame);
    frame = Frame();
  }
  while (link.kept_bytes() < SessionLink::kMaxKeptBytes) {
    frame = Frame();
    frame.kind = kReplies;
    const auto taken = worker_.TakeReply(&frame.payload);
    if (!taken.ok()) return taken.status();
    if (!*taken) return absl::OkStatus();
    link.OnSend(&frame);
  }
  return absl::AbortedError("its client has too much to receive");
}

void Session::ShowSaved() {
  holdings_.devices().ShowAway([this](absl::StatusOr<SessionMemory::AwayShown> shown) {
    control_loop.AssertOnLoop();
    if (!saved_) return;
    if (!shown.ok()) return StopSaving(shown.status());
    auto cut = MakeCut(*shown);
    if (!cut.ok()) return StopSaving(cut.status());
    std::exchange(saved_, nullptr)(std::move(cut));
  });
}

absl::StatusOr<SessionCut> Session::MakeCut(const SessionMemory::AwayShown& away) {
  SessionCut cut;
  SavedSession& to = cut.manifest;
  if (const absl::Status kept = KeepFrames(); !kept.ok()) return kept;
  {
    const LoopScope scope(&channel_loop);
    SessionLink::State state = port_->link().Show();
    to.set_done_commands(state.received_seq);
    to.set_received_controls(state.received_controls);
    to.set_sent_frames(state.sent);
    to.set_acked_frames(state.acked);
    for (auto& [kind, payload] : state.kept) {
      auto* const kept = to.add_kept();
      kept->set_kind(kind);
      kept->set_payload(std::move(payload));
    }
  }
  if (to.done_commands() != worker_.Retired()) {
    return absl::AbortedError("commands are still in flight");
  }
  to.set_session(id_);
  to.set_secret(secret_);
  to.set_peer(lines_.peer());
  *to.mutable_hello() = hello_;
  to.set_token(token_);
  to.set_window_bytes(parts_.options->window_bytes);
  to.set_window_commands(parts_.options->window_commands);
  to.set_board_generation(worker_.board_generation());
  to.set_host_charged_bytes(holdings_.host_charged_bytes());
  to.set_device_uuid(placed_.front()->info().uuid());
  to.set_device_name(placed_.front()->info().name());
  for (const SessionMemory::AwayRange& range : away.ranges) {
    auto* const saved = to.add_range();
    saved->set_va(range.va);
    saved->set_handle(range.handle);
    saved->set_bytes(range.bytes);
  }
  for (const BulkPort::Segment& segment : bulk_->Segments()) {
    auto* const staging = to.add_staging();
    staging->set_va(segment.va);
    staging->set_bytes(segment.bytes);
    auto memory = Duplicate(segment.fd->get());
    if (!memory.ok()) return memory.status();
    cut.staging.push_back(*std::move(memory));
  }
  if (const absl::Status shown = ShowShared(&to); !shown.ok()) return shown;
  cut.away = away.memory;
  auto journal = Duplicate(worker_.journal_fd());
  if (!journal.ok()) return journal.status();
  cut.journal = *std::move(journal);
  if (suspension_.variables_fd() >= 0) {
    auto variables = Duplicate(suspension_.variables_fd());
    if (!variables.ok()) return variables.status();
    cut.variables = *std::move(variables);
  }
  return cut;
}

std::vector<HostSegments::Shared> Session::SharedWithClient() {
  std::set<uint64_t> staging;
  for (const BulkPort::Segment& segment : bulk_->Segments()) staging.insert(segment.va);
  std::vector<HostSegments::Shared> shared;
  for (const HostSegments::Shared& segment : holdings_.host_segments().Show()) {
    if (!staging.contains(segment.va)) shared.push_back(segment);
  }
  return shared;
}

absl::Status Session::ShowShared(SavedSession* to) {
  const std::vector<HostSegments::Shared> shared = SharedWithClient();
  if (heir_ != Heir::kNextServer) {
    if (shared.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError("it shares host memory with its client by now");
  }
  if (!parts_.owner->GiveToClient(id_, shared)) {
    return absl::FailedPreconditionError(
        "its client does not take the host memory that it shares with this server");
  }
  holdings_.host_segments().SetHandedOver(true);
  for (const HostSegments::Shared& segment : shared) {
    auto* const kept = to->add_shared();
    kept->set_va(segment.va);
    kept->set_bytes(segment.bytes);
    kept->set_outlives(segment.outlives);
  }
  // The client still has what it did not hand over to this server.
  for (const auto& [va, segment] : awaited_) *to->add_shared() = segment;
  return absl::OkStatus();
}

void Session::TakeBack() {
  if (!handing_over_.exchange(false)) return;
  holdings_.host_segments().SetHandedOver(outlives_);
  port_->TakeBack();
  bulk_->Release();
  AnswerHeld();
  if (!Serving()) return;
  // The client has its time to come back from now on.
  if (!port_->attached()) presence_.Leave(absl::UnavailableError("it was at rest to be saved"));
  // Requests from before have waited, and so may the client's next command.
  if (holdings_.devices().has_requests() || holdings_.host_segments().has_requests()) {
    paging_.OnWanted();
  } else if (paging_.gone()) {
    port_->AskAboutWaiting();
  }
}

void Session::StopSaving(const absl::Status& status) {
  const Saved saved = std::exchange(saved_, nullptr);
  TakeBack();
  if (saved) saved(status);
}

bool Session::EndSaved(const absl::Status& written) {
  const bool goes_on = state_ == State::kSuspended && !presence_.gone();
  if (!goes_on || !written.ok()) {
    TakeBack();
    return goes_on;
  }
  outlives_ = true;
  switch (heir_) {
    case Heir::kNextServer:
      End("saved for the next server");
      break;
    case Heir::kOtherServer:
      End("moved to another server");
      break;
    case Heir::kCheckpoint:
      End("saved in a checkpoint");
      break;
  }
  return true;
}

// --- Goes on.

bool Session::LetIn() {
  if (!barred_.exchange(false)) return false;
  AnswerHeld();
  // The client has its time to come back from now on.
  if (Serving() && !port_->attached()) presence_.Leave(absl::UnavailableError(reason_));
  return true;
}

void Session::AnswerHeld() {
  const auto held = std::exchange(held_requests_, {});
  if (!Serving()) return;
  for (const auto& request : held) request();
}

absl::Status Session::Adopt(SessionCut cut) {
  const absl::Status adopted = TryAdopt(std::move(cut));
  if (!adopted.ok()) End(absl::StrCat("not taken over: ", adopted.ToString()));
  return adopted;
}

absl::Status Session::AdmitAdopted(const SessionCut& cut) {
  const SavedSession& from = cut.manifest;
  const SessionOptions& options = *parts_.options;
  hello_ = from.hello();
  if (from.device_uuid().size() != kUuidBytes) {
    return absl::InvalidArgumentError("a device without a UUID");
  }
  // A lease that has moved is of another device.
  const bool moved = cut.origin == Origin::kOtherServer;
  hello_.set_device(moved ? "" : FormatDeviceUuid(from.device_uuid()));
  if (!cut.device.empty()) hello_.set_device(cut.device);
  const auto version = CheckHello(&hello_);
  if (!version.ok()) return version.status();
  terms_.version = *version;
  if (IsGuarded(hello_) || (hello_.features() & kFeatureResume) == 0 ||
      options.resume_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a session that cannot be resumed");
  }
  if (const absl::Status tier = CheckTier(hello_, options); !tier.ok()) return tier;
  if (const uint64_t most = MostArenaBytes(hello_, options); hello_.arena_bytes() > most) {
    return ArenaTooLarge(hello_.arena_bytes(), most);
  }
  if (from.window_bytes() > options.window_bytes ||
      from.window_commands() > options.window_commands) {
    return absl::FailedPreconditionError("its client was told of a larger window");
  }
  hello_.set_token(from.token());
  if (const absl::Status held = CheckMembership(); !held.ok()) return held;
  if (const absl::Status tier = CheckTenantsTier(hello_, entitlement()); !tier.ok()) return tier;
  if (const absl::Status placed = TakePlace(); !placed.ok()) return placed;
  const std::string& name = placed_.front()->info().name();
  if (placed_.size() == 1 && name == from.device_name()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the session is of one device of the model ",
                                                    Quoted(from.device_name()), ", this is ",
                                                    Quoted(name)));
}

absl::Status Session::AdoptWorker(SessionCut* cut) {
  const SavedSession& from = cut->manifest;
  auto journal = JournalFile::Adopt(std::move(cut->journal));
  if (!journal.ok()) return journal.status();
  const std::string obstacle =
      WhyNotReplaceable({.journal_flags = (*journal)->flags()}, cut->variables.valid());
  if (!obstacle.empty()) return absl::InvalidArgumentError(obstacle);
  if ((*journal)->retired_seq() != from.done_commands()) {
    return absl::InvalidArgumentError("its journal is of another moment");
  }
  if (const absl::Status prepared = PrepareWorkers(); !prepared.ok()) return prepared;
  return worker_.StartWithout(WorkersDevice(holdings_.devices()),
                              MakeOpenWorker(Facts(), membership_.payer(), tasks_.streams()),
                              parts_.options->ring_bytes, *std::move(journal), from.done_commands(),
                              from.board_generation());
}

absl::Status Session::AdoptLink(const SavedSession& from) {
  SessionLink::State state = {.received_seq = from.done_commands(),
                              .received_controls = from.received_controls(),
                              .sent = from.sent_frames(),
                              .acked = from.acked_frames()};
  for (const auto& kept : from.kept()) state.kept.emplace_back(kept.kind(), kept.payload());
  port_->link().KeepFrames();
  // There is no channel yet.
  const LoopScope scope(&channel_loop);
  return port_->link().Adopt(std::move(state));
}

HostSegments::Result Session::TakeShared(const warpline_internal::HostMemoryRequest& request,
                                         std::vector<UniqueFd> memory) {
  const HostSegments::Result unknown = {CudaResult::kInvalidValue, -1,
                                        "the session has no such memory"};
  if (handing_over() || !Serving() || memory.size() != static_cast<size_t>(request.kept_size())) {
    return unknown;
  }
  std::set<uint64_t> there;
  for (const auto& segment : holdings_.host_segments().Show()) there.insert(segment.va);
  for (int i = 0; i < request.kept_size(); ++i) {
    const warpline_internal::KeptSegment& given = request.kept(i);
    const auto found = awaited_.find(given.va());
    // A client that has lost its connection meanwhile hands all of it over again.
    if (found == awaited_.end() && there.contains(given.va())) continue;
    if (found == awaited_.end() || found->second.bytes() != given.bytes()) return unknown;
    const absl::Status taken =
        holdings_.host_segments().Adopt(given.va(), given.bytes(), found->second.outlives(),
                                        std::move(memory[static_cast<size_t>(i)]));
    if (absl::IsInvalidArgument(taken)) return unknown;
    if (!taken.ok()) {
      const std::string why(taken.message());
      client_.NoteRefusedMemory(why);
      return {CudaResult::kOutOfMemory, -1, why};
    }
    awaited_.erase(found);
  }
  awaits_memory_.store(!awaited_.empty(), std::memory_order_release);
  return {};
}

absl::Status Session::TryAdopt(SessionCut cut) {
  const SavedSession& from = cut.manifest;
  const OriginWords words = WordsOf(cut.origin);
  state_ = State::kOpening;
  if (const absl::Status admitted = AdmitAdopted(cut); !admitted.ok()) return admitted;
  lines_.Begin();
  OpenDevices();
  const bool fits = holdings_.TakeHostMemory(membership_.PayersHostQuota(),
                                             HostBytesOfSession(*parts_.options)) &&
                    holdings_.AdoptHostCharge(from.host_charged_bytes());
  if (!fits) return absl::ResourceExhaustedError("too little host memory is left for it");
  tasks_ = parts_.resources->tasks.Take();
  if (const absl::Status taken = AdoptWorker(&cut); !taken.ok()) return taken;
  SessionMemory::AwayShown away;
  for (const auto& range : from.range()) {
    away.ranges.push_back({range.va(), range.handle(), range.bytes()});
  }
  away.memory = std::move(cut.away);
  if (const absl::Status taken = holdings_.devices().AdoptAway(away); !taken.ok()) return taken;
  holdings_.Suspend();
  if (cut.staging.size() != static_cast<size_t>(from.staging_size())) {
    return absl::InvalidArgumentError("other staging memory than was saved");
  }
  for (int i = 0; i < from.staging_size(); ++i) {
    const uint64_t va = from.staging(i).va();
    const uint64_t bytes = from.staging(i).bytes();
    UniqueFd& memory = cut.staging[static_cast<size_t>(i)];
    const bool known = bulk_->Add(va, bytes, memory.get());
    if (!known) return absl::InvalidArgumentError("more staging memory than a session has");
    const absl::Status taken = holdings_.host_segments().Adopt(va, bytes, false, std::move(memory));
    if (!taken.ok()) return taken;
  }
  if (static_cast<size_t>(from.shared_size()) > HostSegments::kMostSegments) {
    return absl::InvalidArgumentError("more shared memory than a session has");
  }
  for (const auto& segment : from.shared()) awaited_[segment.va()] = segment;
  awaits_memory_.store(!awaited_.empty(), std::memory_order_release);
  if (const absl::Status linked = AdoptLink(from); !linked.ok()) return linked;
  terms_.secret = secret_;
  terms_.resumable = true;
  terms_.streams = tasks_.streams();
  KnowClient(parts_.options->resume_timeout);
  state_ = State::kSuspended;
  reason_ = words.reason;
  suspension_.SetVariables(std::move(cut.variables));
  parts_.books->counters.sessions_opened.Add(1);
  lines_.SayOpened(absl::StrCat("from=", words.from, " peer=", lines_.peer(), " program=",
                                Quoted(hello_.program()), " after_command=", from.done_commands()));
  audit_->Opened({hello_.program(), hello_.pid(), 0, DevicesText(),
                  holdings_.devices().quota(0).limit_bytes()});
  worker_.Connect();
  paging_.BeginAway();
  presence_.Leave(absl::UnavailableError(reason_));
  return absl::OkStatus();
}

}  // namespace warpline::server
