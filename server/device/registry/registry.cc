// Opens backends by name.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/device/device.h"
#include "server/hostlink/backends/backend_names.h"

namespace warpline::device {

// Each backend defines its factory.
#define WARPLINE_BACKEND(name, factory, several, nvidia_driver, what) \
  absl::StatusOr<std::unique_ptr<Backend>> factory(int devices);
#include "server/hostlink/backends/backends.inc"
#undef WARPLINE_BACKEND

// And a function that loads what executes calls of libraries.
void LoadCudaLibraries();
void LoadCpuLibraries();

namespace {

using Factory = absl::StatusOr<std::unique_ptr<Backend>> (*)(int devices);

// The factories, in the order of BackendNames().
constexpr Factory kFactories[] = {
#define WARPLINE_BACKEND(name, factory, several, nvidia_driver, what) factory,
#include "server/hostlink/backends/backends.inc"
#undef WARPLINE_BACKEND
};

}  // namespace

void LoadLibraries(std::string_view name) {
  const absl::StatusOr<DeviceChoice> choice = ParseDevice(name);
  if (!choice.ok()) return;
  const bool cpu = choice->backend != nullptr && !UsesNvidiaDriver(std::string(name));
  cpu ? LoadCpuLibraries() : LoadCudaLibraries();
}

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view name) {
  const absl::StatusOr<DeviceChoice> choice = ParseDevice(name);
  if (!choice.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("device \"", std::string(name),
                                                   "\": ", std::string(choice.status().message())));
  }
  absl::StatusOr<std::unique_ptr<Backend>> opened = absl::UnavailableError("no backend");
  for (const BackendName& backend : BackendNames()) {
    if (choice->backend != nullptr && choice->backend != &backend) continue;
    opened = kFactories[&backend - BackendNames().data()](choice->devices);
    if (opened.ok() && (choice->backend != nullptr || (*opened)->DeviceCount() > 0)) break;
  }
  return opened;
}

}  // namespace warpline::device
