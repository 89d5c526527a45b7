#include "server/gpu_server/nvml/sampler.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/log/log.h"

namespace warpline::nvml {
namespace {

void ReadPairs(const Library& library, const std::vector<std::string>& ids, Sample* sample) {
  for (const std::string& one : ids) {
    for (const std::string& other : ids) {
      if (one != other) sample->pairs[{one, other}] = library.ReadPair(one, other);
    }
  }
}

}  // namespace

Sampler::Sampler(SamplerOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

Sampler::~Sampler() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    wanted_.NotifyAll();
  }
  thread_.join();
}

std::shared_ptr<const Sample> Sampler::Get() {
  const absl::Time now = absl::Now();
  const absl::Time deadline = now + options_.patience;
  MutexLock lock(&mu_);
  if (without_ || now - time_ < options_.fresh) return sample_;
  want_ = true;
  wanted_.NotifyAll();
  while (want_ && !without_) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    taken_.WaitWithTimeout(&mu_, std::min(left, absl::Seconds(10)));
  }
  return sample_;
}

void Sampler::Run() {
  const auto library = options_.load();
  if (!library.ok()) {
    LogInfo("no readings of the devices: ", library.status().message());
    MutexLock lock(&mu_);
    without_ = true;
    taken_.NotifyAll();
    return;
  }
  Sample former;
  while (true) {
    {
      MutexLock lock(&mu_);
      while (!want_ && !stop_) wanted_.Wait(&mu_);
      if (stop_) return;
    }
    auto sample = std::make_shared<Sample>();
    sample->driver_version = (*library)->driver_version();
    sample->nvml_version = (*library)->nvml_version();
    for (const std::string& id : options_.pci_bus_ids) {
      sample->devices[id] = (*library)->Read(id, former.devices[id]);
    }
    sample->pairs = former.pairs;
    if (sample->pairs.empty()) ReadPairs(**library, options_.pci_bus_ids, sample.get());
    former = *sample;
    MutexLock lock(&mu_);
    sample_ = std::move(sample);
    time_ = absl::Now();
    want_ = false;
    taken_.NotifyAll();
  }
}

}  // namespace warpline::nvml
