#include "server/hostlink/backends/backend_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/devices.h"

namespace warpline {
namespace {

constexpr BackendName kBackends[] = {
#define WARPLINE_BACKEND(name, factory, several, nvidia_driver, what) \
  {#name, what, several, nvidia_driver},
#include "server/hostlink/backends/backends.inc"
#undef WARPLINE_BACKEND
};

absl::Status Refuse() {
  std::string expected = "expected auto";
  for (const BackendName& backend : kBackends) {
    const std::string name(backend.name);
    absl::StrAppend(&expected, ", ", name);
    if (backend.several) {
      absl::StrAppend(&expected, ", ", name, ":N with N from 1 to ", kMaxSessionDevices);
    }
  }
  return absl::InvalidArgumentError(expected);
}

}  // namespace

absl::Span<const BackendName> BackendNames() { return kBackends; }

absl::StatusOr<DeviceChoice> ParseDevice(std::string_view device) {
  DeviceChoice choice;
  if (device == "auto") return choice;
  const size_t colon = device.find(':');
  for (const BackendName& backend : kBackends) {
    if (device.substr(0, colon) != backend.name) continue;
    choice.backend = &backend;
    if (colon == std::string_view::npos) return choice;
    const std::string count(device.substr(colon + 1));
    if (backend.several && absl::SimpleAtoi(count, &choice.devices) && choice.devices >= 1 &&
        choice.devices <= static_cast<int>(kMaxSessionDevices)) {
      return choice;
    }
  }
  return Refuse();
}

bool UsesNvidiaDriver(std::string_view device) {
  const absl::StatusOr<DeviceChoice> choice = ParseDevice(device);
  return choice.ok() && choice->backend != nullptr && choice->backend->nvidia_driver;
}

std::string DescribeBackends() {
  return absl::StrJoin(kBackends, ", ", [](std::string* out, const BackendName& backend) {
    const std::string name(backend.name);
    absl::StrAppend(out, name, " (", std::string(backend.what));
    if (backend.several) absl::StrAppend(out, "; ", name, ":N as N devices");
    absl::StrAppend(out, ")");
  });
}

}  // namespace warpline
