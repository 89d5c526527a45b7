// How a session gets from one worker to the next: what it notes, and how that is made again.
#include <time.h>

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/frames.h"
#include "server/worker/continuity/module_variables.h"
#include "server/worker/lanes/session_log.h"
#include "server/worker/session/session.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kLegacyHandle = 1;

bool IsCode(CommandId id) {
  return id == CommandId::kImageData || id == CommandId::kImageZstd ||
         id == CommandId::kImageFind || id == CommandId::kModuleLoad ||
         id == CommandId::kModuleLoadJit || id == CommandId::kKernelFind ||
         id == CommandId::kGlobalFind;
}

// The handle that a ModuleLoad or ModuleLoadJit gives.
uint64_t ModuleOf(const Task& task) {
  if (const auto* const jit = std::get_if<cmd::ModuleLoadJit>(&task.command)) return jit->module;
  const auto* const plain = std::get_if<cmd::ModuleLoad>(&task.command);
  return plain == nullptr ? 0 : plain->module;
}

void Nap() {
  const timespec nap = {0, 20'000};
  nanosleep(&nap, nullptr);
}

}  // namespace

bool Session::Permitted() {
  const CommandInfo& command = FindCommand(id_);
  if (Allows(rights_, command.capability)) return true;
  const uint32_t bit = 1u << static_cast<int>(command.capability);
  if ((said_missing_ & bit) == 0) {
    said_missing_ |= bit;
    LogWarning("not permitted command=", seq_, " call=", command.name,
               " rights=", FormatRights(rights_));
  }
  Refuse(CudaResult::kNotPermitted);
  return false;
}

void Session::Execute(std::string_view body) {
  if (!Permitted()) return;
  if (recorder_ == nullptr) {
    DispatchCommand(id_, body, *this);
    return;
  }
  if (!recorder_->HasRoom(id_, body)) {
    if (const LogPermit permit = log_.Ask(kJournalFullLine)) {
      permit.Warning("the session's journal is full: ", FindCommand(id_).name, " of ", body.size(),
                     " bytes is refused");
    }
    return Refuse(CudaResult::kOutOfMemory);
  }
  refused_ = false;
  DispatchCommand(id_, body, *this);
  if (refused_) {
    recorder_->Refused(id_, body);
  } else {
    recorder_->Note(id_, body);
  }
}

void Session::FlushLanes() {
  control_->Flush();
  if (linker_ != nullptr) linker_->Flush();
  for (const auto& [stream, lane] : lanes_) lane->Flush();
  for (const auto& lane : leaving_) lane->Flush();
}

void Session::PublishIfIdle(uint64_t all) {
  if (all != decoded_seq_.load(std::memory_order_acquire) || !sink_.AllAnswered() ||
      watch_count_.load() != 0) {
    return;
  }
  recorder_->journal()->PublishRetired(all);
}

void Session::OnRecorded(const EventRecord& record) {
  if (recorder_ != nullptr) recorder_->OnRecorded(record);
}

// With several devices no next worker needs to know what is in modules.
uint32_t Session::OnModuleLoaded(const Task& task) {
  if (recorder_ == nullptr || several_devices()) return 0;
  ModuleVariables found = WritableVariables(task.image->bytes(), sm_);
  const uint32_t at_risk =
      (found.any() ? kJournalVariables : 0u) | (found.allocates ? kJournalHeap : 0u);
  variables_.OnLoaded(ModuleOf(task), task.module->id, std::move(found));
  return at_risk;
}

void Session::OnModuleUnloading(uint64_t module) { variables_.OnUnloading(module); }

void Session::OnAtRisk(uint32_t flags) {
  if (recorder_ != nullptr) recorder_->OnAtRisk(flags);
}

void Session::OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) {
  if (recorder_ == nullptr || several_devices()) return;
  recorder_->OnVariableFound(task, address, bytes);
  variables_.OnFound(FoundIn(task), task.tail);
}

CudaResult Session::PlaceVariables(const Task& task,
                                   const std::function<CudaResult(device::ModuleId*)>& load) {
  if (placer_ == nullptr) return CudaResult::kSuccess;
  const VariablePlacer::Wanted wanted = recorder_->ExpectedOf(ModuleOf(task));
  bool in_place = true;
  return wanted.empty() ? CudaResult::kSuccess
                        : placer_->Place(wanted, load, &task.module->id, &in_place);
}

absl::Status Session::SaveVariables(int fd) {
  if (several_devices()) return absl::FailedPreconditionError("it has several devices");
  return variables_.Save(
      fd, [this](uint64_t module, const std::string& name, uint64_t address, uint64_t bytes) {
        recorder_->NoteVariable(module, name, address, bytes);
      });
}

void Session::OnLostWithWorker(bool any) {
  if (recorder_ != nullptr) recorder_->OnLostWithWorker(any);
}

bool Session::Idle() {
  if (!sink_.AllAnswered() || watch_count_.load() != 0) return false;
  MutexLock lock(&mu_);
  for (const auto& lane : all_lanes_) {
    if (lane->delivered() != lane->appended()) return false;
  }
  return true;
}

void Session::FinishLanes() {
  FlushLanes();
  while (!Idle()) Nap();
}

void Session::ReplayEntry(JournalEntry entry) {
  const bool writes = entry.id == CommandId::kCopyToDevice || entry.id == CommandId::kMemset;
  // Streams do not wait for modules; the application did.
  if (writes) FinishLanes();
  id_ = entry.id;
  payload_ = std::make_shared<const std::string>(std::move(entry.body));
  if (Answers(id_)) sink_.Asked();
  DispatchCommand(id_, *payload_, *this);
  const auto body = std::exchange(payload_, nullptr);
  if (entry.id != CommandId::kEventCreate || entry.value == 0) return;
  cmd::EventCreate create;
  std::memcpy(&create, body->data(), sizeof(create));
  const auto event = event_table_.find(create.event);
  if (event == event_table_.end()) return;
  auto record = std::make_shared<worker::EventRecord>(events(0), create.flags, legacy_[0]);
  record->event = create.event;
  record->host_ns.store(entry.value);
  record->restored = true;
  record->set_state(worker::EventRecord::State::kComplete);
  event->second.latest = std::move(record);
}

absl::Status Session::Replay(uint64_t seq) {
  if (several_devices()) return absl::FailedPreconditionError("it has several devices");
  sink_.SetMuted(true);
  recorder_->StartReplay();
  if (virtual_memory_ != nullptr) virtual_memory_->SetRestoring(true);
  next_seq_ = seq + 1;
  seq_ = seq;
  Journal* const journal = recorder_->journal();
  journal->ForEachOf([](CommandId id) { return id == CommandId::kGlobalFind; },
                     [this](const JournalEntry& entry) { recorder_->Expect(entry); });
  // Code comes before everything else, so that nothing lies where its variables must.
  size_t count = 0;
  placer_ = std::make_unique<VariablePlacer>(context(0), &log_);
  const auto replay = [&](JournalEntry entry) {
    ReplayEntry(std::move(entry));
    ++count;
  };
  journal->ForEachOf(IsCode, replay);
  FinishLanes();
  placer_.reset();
  journal->ForEachOf(std::not_fn(IsCode), replay);
  FinishLanes();
  retired_here_ = 0;
  if (virtual_memory_ != nullptr) virtual_memory_->SetRestoring(false);
  const bool in_place = recorder_->EndReplay();
  sink_.SetMuted(false);
  if (fault() != CudaResult::kSuccess) {
    return absl::AbortedError(
        absl::StrCat("making the session again failed: ", CudaResultName(fault())));
  }
  if (!in_place) return absl::AbortedError("a module variable came to lie elsewhere");
  retired_count_.store(seq);
  usage_->commands_complete.store(seq);
  PublishUsage();
  reported_seq_.store(seq);
  decoded_seq_.store(seq, std::memory_order_release);
  // The former worker's last report may not have got out.
  sink_.Retired(0, 0, seq, seq);
  LogInfo("made again entries=", count, " after_command=", seq);
  return absl::OkStatus();
}

}  // namespace warpline::worker
