// Keeps recent readings of a server's devices, for as long as they are asked for.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_SAMPLER_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/gpu_server/nvml/readings.h"

namespace warpline::nvml {

struct SamplerOptions {
  std::vector<std::string> pci_bus_ids;
  // Loads NVML; called on the sampler's thread.
  std::function<absl::StatusOr<std::unique_ptr<Library>>()> load = &Library::Load;
  // Readings that are older than this are taken anew when they are asked for.
  absl::Duration fresh = absl::Milliseconds(200);
  // How long Get() waits for new readings: NVML's driver may take its time, but callers must not.
  absl::Duration patience = absl::Milliseconds(50);
};

// What is known of the machine; the readings are by PCI address.
struct Sample {
  std::string driver_version;
  std::string nvml_version;
  std::map<std::string, Readings> devices;
  // Library::ReadPair() of every two devices.
  std::map<std::pair<std::string, std::string>, std::map<std::string, uint64_t>> pairs;
};

// Thread-safe. Only the sampler's own thread talks to NVML, from the beginning on.
class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  // Waits for a call to NVML that is under way.
  ~Sampler();

  // Returns the newest sample. It is empty until NVML has answered, and where there is no NVML.
  std::shared_ptr<const Sample> Get();

 private:
  void Run();

  const SamplerOptions options_;
  Mutex mu_;
  CondVar wanted_;
  CondVar taken_;
  bool want_ ABSL_GUARDED_BY(mu_) = true;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  // True when NVML is missing, so that there will be no sample.
  bool without_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time time_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::shared_ptr<const Sample> sample_ ABSL_GUARDED_BY(mu_) = std::make_shared<Sample>();
  std::thread thread_;
};

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_SAMPLER_H_
