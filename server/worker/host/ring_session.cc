#include "server/worker/host/ring_session.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/crypto/content_hash.h"
#include "common/log/log.h"
#include "common/log/log_budget.h"
#include "common/loop/adaptive_poll.h"
#include "proto/frames.h"
#include "proto/guard.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"
#include "server/worker/replies/reply_sink.h"
#include "transport/loop_thread.h"
#include "transport/shm_board.h"

namespace warpline::worker {
namespace {

// The descriptors are those of the two rings and the journal, and perhaps the board and the file of
// variables that a former worker saved, the socket to a compiler, and the page of dispatch.
constexpr size_t kRingFds = 3;
constexpr size_t kOpenFds = 2 * kRingFds + 1;

// How long the decoder polls before it sleeps.
std::chrono::microseconds PollFor() { return std::chrono::microseconds(FewProcessors() ? 4 : 160); }

RingDescriptors TakeRing(std::vector<UniqueFd>* fds, size_t first) {
  return {std::move((*fds)[first]), std::move((*fds)[first + 1]), std::move((*fds)[first + 2])};
}

// The last descriptor, if it is there.
UniqueFd TakeLast(bool there, std::vector<UniqueFd>* fds) {
  if (!there || fds->empty()) return UniqueFd();
  UniqueFd last = std::move(fds->back());
  fds->pop_back();
  return last;
}

// On a shared device, where staging memory is for so many sessions (device::SharedDeviceOptions).
constexpr size_t kSharedStagingBuffers = 2;
constexpr size_t kMostSharedStagingBuffers = 4;

// The server made them: what has another length is left out.
std::set<ContentHash> HashesOf(const warpline_internal::OpenWorker& open) {
  std::set<ContentHash> hashes;
  for (const std::string& bytes : open.vetted()) {
    ContentHash hash;
    if (bytes.size() != hash.size()) continue;
    std::copy(bytes.begin(), bytes.end(), hash.begin());
    hashes.insert(hash);
  }
  return hashes;
}

SessionLimits LimitsOf(const warpline_internal::OpenWorker& open, bool shared) {
  SessionLimits limits;
  if (shared) {
    limits.staging_buffers = kSharedStagingBuffers;
    limits.most_staging_buffers = kMostSharedStagingBuffers;
  }
  if (open.max_handles() > 0) limits.max_handles = open.max_handles();
  if (open.max_streams() > 0) limits.max_streams = open.max_streams();
  if (open.max_module_bytes() > 0) limits.max_module_bytes = open.max_module_bytes();
  if (open.max_commands() > 0) limits.max_queued_commands = open.max_commands();
  return limits;
}

// How much of the arena outlives this worker: all but the room of a guarded session's variables.
uint64_t KeptBytes(const warpline_internal::OpenWorker& open) {
  return open.arena_bytes() - (open.guard() != 0 ? ModuleRoomBytes(open.arena_bytes()) : 0);
}

}  // namespace

absl::Status RingSession::Attach(std::vector<UniqueFd>* fds) {
  auto commands = RingReader::Attach(TakeRing(fds, 0));
  if (!commands.ok()) return commands.status();
  commands_ = *std::move(commands);
  auto replies = RingWriter::Attach(TakeRing(fds, kRingFds));
  if (!replies.ok()) return replies.status();
  replies_ = std::make_unique<RingFrameWriter>(*std::move(replies));
  auto journal = Journal::Open(std::move((*fds)[2 * kRingFds]));
  if (!journal.ok()) return journal.status();
  journal_ = *std::move(journal);
  // The budgets of a process with one session count for that.
  if (!shared_) LogBudget::CountAllIn(&journal_->usage()->rows[RowOf(Usage::kLogLinesLeftOut)]);
  return absl::OkStatus();
}

absl::Status RingSession::AttachDispatch(UniqueFd fd,
                                         std::shared_ptr<const std::atomic<uint32_t>> share) {
  if (!fd.valid()) return absl::OkStatus();
  auto page = dispatch::DispatchPage::Attach(std::move(fd));
  if (!page.ok()) return page.status();
  gates_ = std::make_unique<dispatch::SessionGates>(*std::move(page), &dispatch::MonotonicNs,
                                                    std::move(share));
  return absl::OkStatus();
}

void RingSession::Guard(const warpline_internal::OpenWorker& open, Options* options) {
  GuardedCode::Options guard;
  guard.mode = static_cast<GuardMode>(open.guard());
  guard.sm = open.sm();
  guard.arena_base = arena_->base();
  guard.arena_bytes = arena_->bytes();
  guard.shared = shared_;
  guard.shared_room_bytes = open.variable_room_bytes();
  if (shared_) guard.most_local_bytes = options->devices[0].max_stack_bytes;
  guard.compiler = compiler_.get();
  guard.output = open.compiler_gives_text() ? compiler::Output::kText : compiler::Output::kCubin;
  if (gates_ != nullptr) {
    guard.on_load = [gates = gates_.get()](size_t device, bool begins) {
      gates->NoteLoad(device, begins);
    };
  }
  code_ = std::make_unique<GuardedCode>(guard, arena_->contexts(), options->output);
  pace_ =
      std::make_shared<KernelPace>([code = code_.get()](uint32_t nap_ns) { code->SetNap(nap_ns); });
  for (size_t i = 0; i < options->devices.size(); ++i) {
    options->devices[i].code = code_->modules(i);
  }
  options->output = code_->output();
}

absl::StatusOr<std::unique_ptr<RingSession>> RingSession::Create(
    const warpline_internal::OpenWorker& open, std::vector<UniqueFd> fds, ArenaMemory* memory,
    Options options) {
  UniqueFd turns = TakeLast(open.dispatch(), &fds);
  UniqueFd to_compiler = TakeLast(open.compiler(), &fds);
  if (fds.size() != kOpenFds + (open.board_generation() > 0 ? 1 : 0) + (open.variables() ? 1 : 0)) {
    return absl::InvalidArgumentError("descriptors of the rings");
  }
  std::unique_ptr<RingSession> ring(new RingSession(open.session(), memory, options));
  absl::Status status = ring->Attach(&fds);
  if (status.ok()) status = ring->AttachDispatch(std::move(turns), options.share);
  if (!status.ok()) return status;
  ring->recorder_ =
      std::make_unique<Recorder>(ring->journal_.get(), memory->base(), KeptBytes(open));
  ring->memory_ = std::make_unique<VirtualMemory>(memory->contexts());
  if (to_compiler.valid()) {
    ring->compiler_ = std::make_unique<compiler::CompilerClient>(std::move(to_compiler));
  }
  const LoopScope scope(&decoder_thread);
  HostedSession::Options session;
  if (open.guard() != 0) ring->Guard(open, &options);
  session.devices = std::move(options.devices);
  session.limits = LimitsOf(open, options.shared);
  session.writer = ring->replies_.get();
  session.arena_base = memory->base();
  session.arena_bytes = memory->bytes();
  if (open.has_rights()) session.rights = open.rights();
  if (open.vetted_only()) session.vetted.emplace(HashesOf(open));
  session.sm = open.sm();
  session.output = options.output;
  session.charger = &ring->charger_;
  session.host_charged_bytes = open.host_charged_bytes();
  session.memory = ring->memory_.get();
  session.recorder = ring->recorder_.get();
  if (open.guard() != 0) session.arenas = options.arenas;
  session.gates = ring->gates_.get();
  session.on_fault = std::move(options.on_fault);
  session.end_work = std::move(options.end_work);
  if (!session.end_work) {
    session.end_work = [ring = ring.get()](const std::string& why) { ring->EndKernels(why); };
  }
  session.adopt_executors = !FewProcessors();
  session.shares_device = options.shared;
  auto hosted = HostedSession::Create(std::move(session));
  if (!hosted.ok()) return hosted.status();
  ring->session_ = *std::move(hosted);
  if (open.module_cache()) {
    ring->images_ = std::make_unique<ServerImageCache>(options.control_fd, open.session());
  }
  if (open.record_modules()) {
    ring->loaded_ = std::make_unique<ServerModuleRecord>(options.control_fd, open.session());
  }
  ring->fds_ = std::move(fds);
  return ring;
}

absl::Status RingSession::Restore(const warpline_internal::OpenWorker& open) {
  const LoopScope scope(&decoder_thread);
  const std::vector<UniqueFd> fds = std::move(fds_);
  absl::Status status;
  if (open.resume_seq() > 0 || journal_->entries() > 0) {
    status = session_->Replay(open.resume_seq());
  }
  if (status.ok() && open.variables()) status = session_->RestoreVariables(fds.back().get());
  if (!status.ok()) return status;
  if (open.board_generation() > 0) {
    auto board = BoardWriter::Attach(fds[kOpenFds], open.board_generation());
    if (!board.ok()) return board.status();
    session_->replies().UseBoard(*std::move(board));
  }
  if (images_ != nullptr) session_->UseImageCache(images_.get());
  if (loaded_ != nullptr) session_->RecordModules(loaded_.get());
  return absl::OkStatus();
}

absl::Status RingSession::Start(std::function<void(const absl::Status& why)> on_ended) {
  auto decoder = TryStartLoopThread("wl-decoder", [this, on_ended = std::move(on_ended)] {
    const LoopScope scope(&decoder_thread);
    Run(on_ended);
  });
  if (!decoder.ok()) return decoder.status();
  decoder_ = *std::move(decoder);
  return absl::OkStatus();
}

void RingSession::BeginEnd() {
  charger_.Close();
  if (images_ != nullptr) images_->Close();
  if (compiler_ != nullptr) compiler_->Close();
  if (replies_ != nullptr) replies_->Close();
  stopping_.store(true);
  if (session_ != nullptr) session_->BeginEnd();
}

RingSession::StalledWork RingSession::LookAtWork() {
  return {session_->StalledSince(), arena_->contexts()[0]->BusyProcessors(),
          pace_ != nullptr && pace_->slow()};
}

// The error comes first: what the kernels have left undone must not be taken for a result. A client
// that does not read holds up only the thread that tells it, until the session is closed.
void RingSession::EndKernels(std::string_view why) {
  if (ends_kernels_.exchange(true)) return;
  auto ending = TryStartLoopThread("wl-ending", [this, why = std::string(why)] {
    session_->Fail(CudaResult::kLaunchTimeout, why);
    if (code_ != nullptr) code_->StopKernels();
  });
  // Without a thread the kernels run on, and whoever wants them ended sees that.
  if (ending.ok()) ending_ = *std::move(ending);
}

// Who may be waiting comes first, so that the threads end.
void RingSession::Stop() {
  BeginEnd();
  if (pace_ != nullptr) pace_->Close();
  if (code_ != nullptr) code_->StopKernels();
  if (commands_ != nullptr) commands_->Interrupt();
  if (decoder_.joinable()) decoder_.join();
  if (ending_.joinable()) ending_.join();
  const LoopScope scope(&decoder_thread);
  session_ = nullptr;
}

absl::StatusOr<bool> RingSession::DecodeNext() {
  uint32_t kind = 0;
  std::string payload;
  const absl::StatusOr<bool> got = commands_->TryRead(&kind, &payload);
  if (!got.ok()) {
    return absl::InternalError(absl::StrCat("ring from the server: ", got.status().ToString()));
  }
  if (!*got) return false;
  if (shared_ && !arena_->sealed()) {
    const CudaResult result = arena_->Seal();
    if (result != CudaResult::kSuccess) {
      return absl::InternalError(absl::StrCat("the arena: ", CudaResultName(result)));
    }
  }
  if (kind != kCommands) return absl::InvalidArgumentError("unknown frame kind");
  const absl::Status decoded = session_->Decode(std::move(payload));
  if (!decoded.ok()) return decoded;
  return true;
}

void RingSession::Run(const std::function<void(const absl::Status&)>& on_ended) {
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  pthread_setname_np(pthread_self(), "wl-decoder");
  AdaptivePoll poll(PollFor());
  while (!stopping_.load(std::memory_order_acquire)) {
    const absl::StatusOr<bool> decoded = DecodeNext();
    if (!decoded.ok()) {
      if (!stopping_.load(std::memory_order_acquire)) on_ended(decoded.status());
      return;
    }
    const AdaptivePoll::Clock::time_point now = AdaptivePoll::Clock::now();
    if (*decoded) {
      poll.Found(now);
    } else if (!poll.over(now)) {
      session_->LookAfterExecutor();
      poll.Rest();
    } else {
      session_->GiveBackExecutor();
      const AdaptivePoll::Sleep sleep(&poll);
      commands_->WaitReadable(absl::InfiniteDuration());
    }
  }
}

CudaResult RingSession::Release(const warpline_internal::ReleaseHandles& release) {
  for (const uint64_t handle : release.handle()) {
    const CudaResult result = memory_->Release(handle);
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

CudaResult RingSession::Hold(const warpline_internal::HoldMemory& hold, std::vector<UniqueFd> fds) {
  if (static_cast<size_t>(hold.chunk_bytes_size()) != fds.size() ||
      hold.handle_size() != hold.chunk_bytes_size()) {
    return CudaResult::kInvalidValue;
  }
  for (int i = 0; i < hold.handle_size(); ++i) {
    const CudaResult result =
        memory_->Hold(hold.handle(i), hold.chunk_bytes(i), std::move(fds[static_cast<size_t>(i)]));
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

void RingSession::OnModuleImage(UniqueFd image) {
  if (images_ != nullptr) images_->Deliver(std::move(image));
}

}  // namespace warpline::worker
