#include "server/worker/session/session.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/frames.h"
#include "server/worker/lanes/session_log.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kLegacyHandle = 1;

std::vector<std::unique_ptr<EventPool>> PoolsFor(const std::vector<SessionDevice>& devices) {
  std::vector<std::unique_ptr<EventPool>> pools;
  for (const SessionDevice& device : devices) {
    pools.push_back(std::make_unique<EventPool>(device.context));
  }
  return pools;
}

void Nap() {
  const timespec nap = {0, 50'000};
  nanosleep(&nap, nullptr);
}

}  // namespace

Session::Session(std::vector<SessionDevice> devices, FrameWriter* writer,
                 const SessionLimits& limits)
    : devices_(std::move(devices)),
      limits_(limits),
      log_(kSessionLines),
      sink_(writer),
      events_(PoolsFor(devices_)),
      staging_(devices_[0].context, limits.staging_buffers),
      variables_(devices_[0].context) {
  staging_.set_usage(usage_);
  control_ = std::make_shared<ControlLane>(this);
  if (!control_->Start()) return;
  {
    MutexLock lock(&mu_);
    all_lanes_.push_back(control_);
  }
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    auto lane = OpenLane(Lane::Kind::kLegacy, HandleOnDevice(device, kLegacyHandle));
    if (lane == nullptr) return;
    legacy_.push_back(std::move(lane));
  }
}

void Session::SetRecorder(Recorder* recorder) {
  recorder_ = recorder;
  if (several_devices()) recorder_->OnSeveralDevices();
  usage_ = recorder->journal()->usage();
  staging_.set_usage(usage_);
}

Session::~Session() {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    MutexLock lock(&mu_);
    lanes = all_lanes_;
  }
  // Threads end before anything that they use goes away.
  for (const auto& lane : lanes) lane->Stop();
  leaving_.clear();
  host_calls_.clear();
  MutexLock lock(&mu_);
  watches_.clear();
  all_lanes_.clear();
}

absl::Status Session::Decode(std::string payload) {
  CommandsHeader header;
  std::string_view rest = payload;
  if (!TakeStruct(&rest, &header)) return absl::InvalidArgumentError("half a commands header");
  if (header.first_seq != next_seq_ || header.acked != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("commands from ", header.first_seq, ", expected ", next_seq_));
  }
  if (TooMuchQueued()) Meet(Limit::kCommands, limits_.max_queued_commands);
  while (TooMuchQueued()) Nap();
  const uint64_t bytes = payload.size();
  queued_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  payload_ = std::shared_ptr<const std::string>(
      new std::string(std::move(payload)), [this, bytes](const std::string* p) {
        delete p;
        queued_bytes_.fetch_sub(bytes, std::memory_order_release);
      });
  CommandReader reader(std::string_view(*payload_).substr(sizeof(header)));
  uint32_t count = 0;
  absl::Status status;
  while (!reader.Done()) {
    absl::StatusOr<CommandView> command = reader.Next();
    if (!command.ok()) {
      status = command.status();
      break;
    }
    ++count;
    seq_ = next_seq_++;
    id_ = command->id;
    if (Answers(id_)) sink_.Asked();
    Execute(command->body);
  }
  payload_.reset();
  if (status.ok() && count != header.count) {
    status =
        absl::InvalidArgumentError(absl::StrCat(count, " commands in a batch of ", header.count));
  }
  // Before any lane can complete something of it, so that the last report says that all is done.
  decoded_seq_.store(next_seq_ - 1, std::memory_order_release);
  PublishUsage();
  FlushLanes();
  std::erase_if(leaving_, [](const auto& lane) { return lane->finished(); });
  if (retired_here_ > 0) {
    const uint64_t total = retired_count_.fetch_add(retired_here_) + retired_here_;
    usage_->commands_complete.fetch_add(retired_here_, std::memory_order_relaxed);
    retired_here_ = 0;
    const uint64_t all = AllSeq(nullptr);
    RaiseReported(all);
    sink_.Retired(0, 0, all, total);
  }
  if (watch_count_.load() > 0) RunWatches();
  if (recorder_ != nullptr) PublishIfIdle(AllSeq(nullptr));
  return status;
}

// --- LaneHost

void Session::Fail(uint64_t seq, CommandId id, CudaResult result) {
  if (IsSticky(result)) {
    CudaResult none = CudaResult::kSuccess;
    if (!fault_.compare_exchange_strong(none, result)) return;
    LogWarning("fault command=", seq, " call=", FindCommand(id).name,
               " error=", CudaResultName(result));
    if (recorder_ != nullptr) recorder_->OnFault();
  } else if (fault() != CudaResult::kSuccess) {
    return;
  }
  if (!IsSticky(result)) {
    if (const LogPermit permit = log_.Ask(kRefusedLine)) {
      permit.Info("refused command=", seq, " call=", FindCommand(id).name,
                  " error=", CudaResultName(result));
    }
  }
  // The text of a failed assertion comes before its error.
  if (IsSticky(result)) SendOutput();
  sink_.Failed(seq, id, result, CudaResultName(result));
}

void Session::NotePrints() {
  if (!prints_.exchange(true)) sink_.Output(1, {});
}

void Session::SendOutput() {
  if (output_ == nullptr || !prints_.load()) return;
  MutexLock lock(&output_mu_);
  for (const SessionDevice& device : devices_) device.context->FlushOutput();
  output_->Collect(
      [this](int descriptor, std::string_view text) { sink_.Output(descriptor, text); });
}

// By CUlimit. Those not named cost no memory.
uint64_t Session::MostOfLimit(uint32_t device, int limit) {
  constexpr int kStack = 0, kPrintfFifo = 1, kMallocHeap = 2, kPendingLaunches = 4, kL2Fetch = 5,
                kPersistingL2 = 6;
  switch (limit) {
    case kStack:
      return devices_[device].max_stack_bytes;
    case kPrintfFifo:
      return limits_.max_printf_bytes;
    case kMallocHeap:
      return limits_.max_heap_bytes;
    case kPendingLaunches:
      return 64u << 10;
    case kL2Fetch:
    case kPersistingL2:
      return ~uint64_t{0};
    default:
      return 0;
  }
}

bool Session::TooMuchQueued() const {
  return queued_bytes_.load(std::memory_order_acquire) > limits_.max_queued_bytes ||
         next_seq_ - 1 - retired_count_.load(std::memory_order_relaxed) >
             limits_.max_queued_commands ||
         static_cast<size_t>(watch_count_.load(std::memory_order_relaxed)) > limits_.max_watches;
}

// --- Tables and lanes

std::shared_ptr<Lane> Session::FindLane(uint64_t stream) {
  const auto it = lanes_.find(stream);
  return it == lanes_.end() ? nullptr : it->second;
}

void Session::Refuse(CudaResult result) {
  refused_ = true;
  if (fault() != CudaResult::kSuccess) result = fault();
  if (Answers(id_)) {
    sink_.Reply(seq_, result);
  } else {
    Fail(seq_, id_, result);
  }
  RetireHere();
}

uint64_t Session::handle_count() const {
  return lanes_.size() + event_table_.size() + images_.size() + modules_.size() + kernels_.size() +
         host_calls_.size() + links_.size() + arrays_.size() + graphs_.size() + frames_.size() +
         (virtual_memory_ == nullptr ? 0 : virtual_memory_->mappings());
}

bool Session::HandlesLeft() {
  if (handle_count() < limits_.max_handles) return true;
  RefuseBeyond(Limit::kHandles, limits_.max_handles);
  return false;
}

void Session::Meet(Limit limit, uint64_t most) {
  usage_->Meet(limit);
  const auto index = static_cast<size_t>(limit);
  if (std::exchange(said_limit_[index], true)) return;
  LogWarning("limit reached what=", kLimitNames[index], " limit=", most,
             " call=", id_ == CommandId{} ? "" : FindCommand(id_).name);
}

void Session::RefuseBeyond(Limit limit, uint64_t most) {
  Meet(limit, most);
  Refuse(CudaResult::kOutOfMemory);
}

void Session::PublishUsage() {
  usage_->handles.store(handle_count(), std::memory_order_relaxed);
  usage_->module_bytes.store(module_bytes_, std::memory_order_relaxed);
  usage_->commands_taken.store(next_seq_ - 1, std::memory_order_relaxed);
}

void Session::ToControl(Task task) { control_->Append(std::move(task)); }

template <typename Command>
void Session::ToModule(const Command& command, std::string_view tail) {
  const auto module = modules_.find(command.module);
  if (module == modules_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.module = module->second;
  ToControl(std::move(task));
}

template <typename Command>
void Session::ToKernel(const Command& command, std::string_view tail) {
  const auto kernel = kernels_.find(command.kernel);
  if (kernel == kernels_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.kernel = kernel->second;
  ToControl(std::move(task));
}

// --- Modules and kernels

template <typename Command>
void Session::LoadFrom(const Command& command, std::string_view tail) {
  const auto image = images_.find(command.image);
  if (image == images_.end() || !(image->second->complete() || image->second->missing()) ||
      modules_.contains(command.module) || !HasDevice(command.module)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.image = std::move(image->second);
  images_.erase(image);
  auto module = std::make_shared<Module>();
  module->device = DeviceOfHandle(command.module);
  module->image_bytes = task.image->missing() ? 0 : task.image->total();
  module->ticket = control_->appended() + 1;
  modules_.emplace(command.module, module);
  task.module = std::move(module);
  ToControl(std::move(task));
}

void Session::On(const cmd::ModuleLoad& command, std::string_view tail) { LoadFrom(command, tail); }
void Session::On(const cmd::ModuleLoadJit& command, std::string_view tail) {
  LoadFrom(command, tail);
}

void Session::On(const cmd::ModuleJitLog& command, std::string_view tail) {
  ToModule(command, tail);
}
void Session::On(const cmd::ModuleKernels& command, std::string_view tail) {
  ToModule(command, tail);
}
void Session::On(const cmd::ModuleCheck& command, std::string_view tail) {
  ToModule(command, tail);
}

void Session::On(const cmd::ModuleUnload& command, std::string_view tail) {
  const auto module = modules_.find(command.module);
  if (module == modules_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.module = module->second;
  AfterAllIssued(&task);
  module_bytes_ -= module->second->image_bytes;
  // Kernels go with their module.
  absl::erase_if(kernels_, [&](const auto& k) { return k.second->module == module->second; });
  modules_.erase(module);
  ToControl(std::move(task));
}

void Session::On(const cmd::KernelFind& command, std::string_view tail) {
  const auto module = modules_.find(command.module);
  if (module == modules_.end() || kernels_.contains(command.kernel)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  auto kernel = std::make_shared<Kernel>();
  kernel->module = module->second;
  kernel->ticket = control_->appended() + 1;
  kernels_.emplace(command.kernel, kernel);
  task.kernel = std::move(kernel);
  ToControl(std::move(task));
}

void Session::On(const cmd::GlobalFind& command, std::string_view tail) { ToModule(command, tail); }
void Session::On(const cmd::VariableFind& command, std::string_view tail) {
  ToModule(command, tail);
}
// Launches that were made before keep the kernel as it was.
void Session::On(const cmd::KernelSetAttribute& command, std::string_view tail) {
  const auto kernel = kernels_.find(command.kernel);
  if (kernel == kernels_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.kernel = std::make_shared<Kernel>();
  task.kernel->module = kernel->second->module;
  task.kernel->ticket = control_->appended() + 1;
  task.former_kernel = std::exchange(kernel->second, task.kernel);
  ToControl(std::move(task));
}
void Session::On(const cmd::MaxActiveBlocks& command, std::string_view tail) {
  ToKernel(command, tail);
}

template <typename Command>
void Session::LaunchOn(const Command& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  const auto kernel = kernels_.find(command.kernel);
  if (lane == nullptr || kernel == kernels_.end() ||
      kernel->second->module->device != lane->device()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.kernel = kernel->second;
  if (control_->issued() < task.kernel->ticket) {
    task.after.push_back({control_, task.kernel->ticket});
  }
  Enqueue(lane, std::move(task));
}

void Session::On(const cmd::Launch& command, std::string_view tail) { LaunchOn(command, tail); }
void Session::On(const cmd::LaunchEx& command, std::string_view tail) { LaunchOn(command, tail); }
void Session::On(const cmd::ClusterOccupancy& command, std::string_view tail) {
  ToKernel(command, tail);
}

// --- Limits

void Session::On(const cmd::LimitGet& command, std::string_view tail) {
  if (command.device >= devices_.size()) return Refuse(CudaResult::kInvalidDevice);
  ToControl(NewTask(command, tail));
}
void Session::On(const cmd::LimitSet& command, std::string_view tail) {
  if (command.device >= devices_.size()) return Refuse(CudaResult::kInvalidDevice);
  ToControl(NewTask(command, tail));
}

}  // namespace warpline::worker
