#include "server/worker/continuity/continuity.h"

#include <string>
#include <utility>
#include <variant>

#include "server/hostlink/handover/journal_file.h"
#include "server/worker/continuity/module_variables.h"

namespace warpline::worker {
namespace {

// The handle that a ModuleLoad or ModuleLoadJit gives to its module.
uint64_t ModuleOf(const Task& task) {
  if (const auto* const jit = std::get_if<cmd::ModuleLoadJit>(&task.command)) return jit->module;
  const auto* const plain = std::get_if<cmd::ModuleLoad>(&task.command);
  return plain == nullptr ? 0 : plain->module;
}

}  // namespace

Continuity::Continuity(const DeviceSet* devices, Recorder* recorder, int sm, bool reads_images,
                       LogBudget* log)
    : reads_images_(reads_images),
      devices_(devices),
      recorder_(recorder),
      sm_(sm),
      log_(log),
      carrier_(devices->context(0), devices->code(0)) {
  if (recorder_ != nullptr && devices_->several()) recorder_->OnSeveralDevices();
}

void Continuity::BeginPlacing() {
  placer_ = std::make_unique<VariablePlacer>(devices_->code(0), log_);
}

absl::Status Continuity::Save(int fd) {
  if (devices_->several()) return absl::FailedPreconditionError("it has several devices");
  return carrier_.Save(
      fd, [this](uint64_t module, const std::string& name, uint64_t address, uint64_t bytes) {
        recorder_->NoteVariable(module, name, address, bytes);
      });
}

void Continuity::OnRecorded(const EventRecord& record) {
  if (recorder_ != nullptr) recorder_->OnRecorded(record);
}

CudaResult Continuity::PlaceVariables(const Task& task,
                                      const std::function<CudaResult(device::ModuleId*)>& load) {
  if (placer_ == nullptr) return CudaResult::kSuccess;
  const VariablePlacer::Wanted wanted = recorder_->ExpectedOf(ModuleOf(task));
  bool in_place = true;
  return wanted.empty() ? CudaResult::kSuccess
                        : placer_->Place(wanted, load, &task.module->id, &in_place);
}

uint64_t Continuity::VariableBytes(const Task& task) {
  if (!reads_images_) return 0;
  loading_ = WritableVariables(task.image->bytes(), sm_);
  return loading_.bytes;
}

uint32_t Continuity::OnModuleLoaded(const Task& task) {
  ModuleVariables found = std::exchange(loading_, ModuleVariables());
  if (!keeps_variables()) return 0;
  if (!reads_images_) {
    found.complete = devices_->code(0)->WritableVariables(task.module->id, &found.names);
    std::erase_if(found.names, [](const std::string& name) { return IsCompilersOwn(name); });
  }
  const uint32_t at_risk =
      (found.any() ? kJournalVariables : 0u) | (found.allocates ? kJournalHeap : 0u);
  carrier_.OnLoaded(ModuleOf(task), task.module->id, std::move(found));
  return at_risk;
}

void Continuity::OnModuleUnloading(uint64_t module) { carrier_.OnUnloading(module); }

void Continuity::OnAtRisk(uint32_t flags) {
  if (recorder_ != nullptr) recorder_->OnAtRisk(flags);
}

void Continuity::OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) {
  if (!keeps_variables()) return;
  recorder_->OnVariableFound(task, address, bytes);
  carrier_.OnFound(FoundIn(task), task.tail);
}

void Continuity::OnLostWithWorker(bool any) {
  if (recorder_ != nullptr) recorder_->OnLostWithWorker(any);
}

}  // namespace warpline::worker
