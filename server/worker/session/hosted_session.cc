#include "server/worker/session/hosted_session.h"

#include <utility>

#include "server/worker/executors/session_log.h"
#include "server/worker/session/journal_replay.h"

namespace warpline::worker {
namespace {

// The charger of a session that is not charged.
class NoCharger : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t, uint64_t) override { return CudaResult::kSuccess; }
  void Uncharge(uint32_t, uint64_t) override {}
};

MemoryCharger* ChargerOf(const HostedSession::Options& options) {
  static NoCharger none;
  return options.charger != nullptr ? options.charger : &none;
}

std::optional<NeighbourPointers> PointersOf(const HostedSession::Options& options,
                                            SharedUsage* usage) {
  if (options.arenas == nullptr) return std::nullopt;
  return NeighbourPointers(options.arenas, options.arena_base, options.arena_bytes, usage);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostedSession>> HostedSession::Create(Options options) {
  Recorder* const recorder = options.recorder;
  std::unique_ptr<HostedSession> session(new HostedSession(std::move(options)));
  if (recorder != nullptr) recorder->UseHostMemory(&session->host_memory_);
  if (!session->order_.Start()) return absl::ResourceExhaustedError("no threads for a session");
  return session;
}

HostedSession::HostedSession(Options options)
    : limits_(options.limits),
      log_(kSessionLines),
      usage_(options.recorder == nullptr ? &own_usage_ : options.recorder->journal()->usage()),
      devices_(std::move(options.devices), limits_),
      sink_(options.writer, &progress_),
      staging_(devices_.context(0), limits_.staging_buffers, limits_.most_staging_buffers, usage_),
      pointers_(PointersOf(options, usage_)),
      prints_(options.output, &devices_, &sink_),
      continuity_(&devices_, options.recorder, options.sm, !options.shares_device, &log_),
      outside_(ChargerOf(options), devices_.size()),
      host_memory_(ChargerOf(options), options.host_charged_bytes),
      completion_({.sink = &sink_,
                   .progress = &progress_,
                   .prints = &prints_,
                   .usage = usage_,
                   .recorder = options.recorder,
                   .log = &log_,
                   .on_fault = std::move(options.on_fault)}),
      executor_host_({.devices = &devices_,
                      .reports = &completion_,
                      .state = &continuity_,
                      .charger = ChargerOf(options),
                      .outside = &outside_,
                      .libraries = &libraries_,
                      .sink = &sink_,
                      .prints = &prints_,
                      .staging = &staging_,
                      .gate = &gate_,
                      .images = &images_,
                      .naps = &naps_,
                      .pointers = pointers_.has_value() ? &*pointers_ : nullptr,
                      .gates = options.gates,
                      .end_work = options.end_work,
                      .log = &log_,
                      .adopts_executors = options.adopt_executors,
                      .shares_device = options.shares_device}),
      order_(&executor_host_, &completion_),
      current_(&completion_, &sink_, usage_),
      vetted_(std::move(options.vetted)),
      command_parts_({.current = &current_,
                      .tables = &tables_,
                      .order = &order_,
                      .completion = &completion_,
                      .progress = &progress_,
                      .sink = &sink_,
                      .devices = &devices_,
                      .limits = &limits_,
                      .images = &images_,
                      .log = &log_,
                      .recorder = options.recorder,
                      .host_memory = &host_memory_,
                      .memory = options.memory,
                      .arena_base = options.arena_base,
                      .arena_bytes = options.arena_bytes,
                      .ending = &ending_,
                      .vetted = vetted_.has_value() ? &*vetted_ : nullptr}),
      decoder_(&command_parts_, usage_, options.rights) {
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    devices_.code(device)->SetCodePayer(&paid_code_.emplace_back(&outside_, device));
  }
}

// Threads end before anything that they use is destroyed.
HostedSession::~HostedSession() {
  completion_.StopExecutors();
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    devices_.code(device)->SetCodePayer(nullptr);
  }
}

absl::Status HostedSession::Replay(uint64_t seq) {
  outside_.BeginReplay();
  host_memory_.BeginReplay();
  const absl::Status status = ReplayJournal(seq, command_parts_, &continuity_, &decoder_);
  host_memory_.EndReplay();
  replayed_bytes_ = outside_.EndReplay();
  return status;
}

}  // namespace warpline::worker
