// What NVIDIA's management library says of one device, read without a device context.
//
// NVML is loaded at run time, as the driver is, and readings that a GPU or a driver does not
// support are left out. The functions take and give plain numbers, so no header of NVIDIA's is
// needed.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_READINGS_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_READINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace warpline::nvml {

struct Readings {
  std::map<std::string, uint64_t> numbers;
  std::map<std::string, std::string> texts;
};

// Finds a function of NVML by name; returns nullptr when there is none.
using Lookup = std::function<void*(const char* name)>;

// NVML, initialized. Not thread-safe. It is never unloaded, because NVML has threads of its own.
class Library {
 public:
  // Loads libnvidia-ml.so.1. UNAVAILABLE, with the reason, when there is none or it does not start.
  static absl::StatusOr<std::unique_ptr<Library>> Load();
  // Starts NVML over functions that the caller provides, which must outlive the library.
  static absl::StatusOr<std::unique_ptr<Library>> Start(Lookup lookup);

  // Versions such as "580.159.04" and "13.580.159.04"; empty when NVML does not say.
  const std::string& driver_version() const { return driver_version_; }
  const std::string& nvml_version() const { return nvml_version_; }

  // Reads the device at a PCI address ("0000:0f:00.0"); empty when NVML does not know it. What does
  // not change is taken from `former`, the device's last readings, unless those are empty.
  Readings Read(const std::string& pci_bus_id, const Readings& former = {}) const;
  // Reads how two devices are connected: "topology", "same_board", and "p2p_N" for each of NVML's
  // capabilities of peers. The values do not change.
  std::map<std::string, uint64_t> ReadPair(const std::string& pci_bus_id,
                                           const std::string& other_bus_id) const;

  // For what else is read: see driver_samples.h.
  const Lookup& lookup() const { return lookup_; }

 private:
  explicit Library(Lookup lookup) : lookup_(std::move(lookup)) {}

  const Lookup lookup_;
  std::string driver_version_;
  std::string nvml_version_;
};

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_READINGS_H_
