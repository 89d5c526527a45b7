// An NVML without a driver, for tests: devices that say what the test has them say.
//
//   FakeNvml nvml;
//   nvml.AddDevice("0000:0f:00.0").power_mw = 300'000;
//   auto library = Library::Start(nvml.lookup());
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_TESTING_FAKE_NVML_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_TESTING_FAKE_NVML_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/gpu_server/nvml/readings.h"

namespace warpline::nvml {

// Thread-safe but for the device that AddDevice() returns. NVML's functions have no argument that
// could say which fake is meant, so that there is one at a time.
class FakeNvml {
 public:
  // What a device says of a process, as nvmlProcessUtilizationSample_t has it.
  struct Use {
    uint32_t pid = 0;
    uint64_t time_us = 0;
    uint32_t percent = 0;
  };
  // A MIG instance.
  struct Instance {
    std::string uuid;
    uint32_t gpu_instance = 0;
    uint32_t compute_instance = 0;
  };
  struct Device {
    std::string pci_bus_id;
    std::string uuid;
    uint32_t minor = 0;
    // Whether it is in MIG mode, and what it has then; null for a place without an instance.
    bool mig = false;
    std::vector<const Instance*> instances = {};
    uint32_t power_mw = 0;  // 0: not supported, as the other two.
    uint32_t limit_mw = 0;
    uint32_t temperature_c = 0;
    // Of nvmlDeviceGetProcessUtilization; what it returns where it is not 0.
    std::vector<Use> uses;
    int uses_error = 0;
  };

  FakeNvml();
  ~FakeNvml();
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  // It lives as long as the fake.
  Device& AddDevice(const std::string& pci_bus_id);
  // What the device says from now on.
  void SetUses(Device* device, std::vector<Use> uses);
  void SetPower(Device* device, uint32_t power_mw);
  // How often processes have been asked for.
  int asked() const;
  Lookup lookup() const;

 private:
  struct Functions;  // Those of NVML.

  mutable Mutex mu_;
  std::list<Device> devices_ ABSL_GUARDED_BY(mu_);
  int asked_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_TESTING_FAKE_NVML_H_
