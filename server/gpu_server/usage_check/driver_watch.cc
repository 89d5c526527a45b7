#include "server/gpu_server/usage_check/driver_watch.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "server/gpu_server/nvml/driver_samples.h"
#include "transport/loop_thread.h"

namespace warpline::server {
namespace {

constexpr LogKind kEach[] = {{"overdraft", 8, absl::Minutes(1)}};
constexpr LogKind kAll[] = {{"overdraft", 80, absl::Seconds(10)}};

KeyedLogBudgetOptions LogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  options.owner = "driver's figures";
  return options;
}

std::string Percent(int64_t thousandths) { return absl::StrCat((thousandths + 5) / 10, " %"); }

}  // namespace

DriverWatch::DriverWatch(DriverWatchOptions options)
    : options_(std::move(options)), log_(LogOptions()) {}

absl::StatusOr<std::unique_ptr<DriverWatch>> DriverWatch::Create(DriverWatchOptions options) {
  std::unique_ptr<DriverWatch> watch(new DriverWatch(std::move(options)));
  if (!watch->options_.has_thread) return watch;
  auto thread = TryStartLoopThread("wl-usage", [raw = watch.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  watch->thread_ = *std::move(thread);
  return watch;
}

DriverWatch::~DriverWatch() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void DriverWatch::Run() {
  while (ReadNow()) {
    MutexLock lock(&mu_);
    if (stop_) return;
    changed_.WaitWithTimeout(&mu_, options_.period);
    if (stop_) return;
  }
}

bool DriverWatch::ReadNow() {
  if (!std::exchange(tried_, true)) {
    auto library = options_.load();
    if (!library.ok()) {
      LogWarning("the driver says nothing of processes, so that workers are taken at their word: ",
                 library.status().message());
      return false;
    }
    library_ = *std::move(library);
  }
  if (library_ == nullptr) return false;
  for (const auto& [ordinal, use] : options_.dispatcher->Uses()) {
    const auto found = options_.pci_bus_ids.find(ordinal);
    if (found == options_.pci_bus_ids.end()) continue;
    const nvml::PowerReading power = nvml::ReadPower(*library_, found->second);
    options_.dispatcher->SetPower(ordinal, {power.power_mw, power.limit_mw, power.temperature_c});
    CheckUse(ordinal, found->second, use);
  }
  return true;
}

void DriverWatch::CheckUse(int ordinal, const std::string& pci_bus_id,
                           const dispatch::GpuUse& use) {
  Gpu& gpu = gpus_.try_emplace(ordinal, options_.check).first->second;
  if (gpu.off) return;
  const auto samples = nvml::ReadProcessUse(*library_, pci_bus_id, gpu.check.since_us());
  if (absl::IsUnimplemented(samples.status())) {
    return SayOff(ordinal, &gpu, std::string(samples.status().message()));
  }
  // What fails for once is a time without samples.
  const std::vector<nvml::ProcessUse> none;
  const auto found = gpu.check.Observe(options_.clock(), samples.ok() ? *samples : none, use);
  for (const Overdraft& over : found) Act(ordinal, over);
  if (gpu.check.silent()) {
    SayOff(
        ordinal, &gpu,
        "it names none of the server's processes, such as in a container with process numbers of "
        "its own");
  }
}

void DriverWatch::SayOff(int ordinal, Gpu* gpu, const std::string& why) {
  gpu->off = true;
  LogWarning("the driver says nothing of processes, so that workers are taken at their word gpu=",
             ordinal, ": ", why);
}

void DriverWatch::Act(int ordinal, const Overdraft& over) {
  options_.dispatcher->ChargeStolen(ordinal, over.session, over.stolen_ns);
  const std::string what = absl::StrCat(
      "its worker had ", Percent(over.used), " of gpu ", ordinal, " by the driver's figures, and ",
      Percent(over.noted), " by turns, of ", Percent(over.share), " that it was promised");
  if (over.ends) {
    options_.end_session(
        over.session,
        absl::StrCat("the session does not keep to its turns: ", what, ", over ",
                     absl::FormatDuration(absl::Trunc(over.lasted, absl::Seconds(1)))));
    return;
  }
  if (const LogPermit permit = log_.Ask(over.tenant, 0)) {
    permit.Warning("charged what was not given session=", over.session, " tenant=", over.tenant,
                   " worker_pid=", over.pid, " ns=", over.stolen_ns, ": ", what);
  }
}

}  // namespace warpline::server
