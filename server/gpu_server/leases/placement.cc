#include "server/gpu_server/leases/placement.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lease/device_match.h"
#include "lease/entitlement.h"
#include "proto/devices.h"

namespace warpline::server {
namespace {

constexpr size_t kMaxNameInError = 64;

std::string Shown(absl::string_view name) {
  return absl::CHexEscape(name.substr(0, kMaxNameInError));
}

std::vector<std::string> UuidsOf(const std::vector<PlacementCandidate>& devices) {
  std::vector<std::string> uuids;
  for (const PlacementCandidate& device : devices) uuids.push_back(FormatDeviceUuid(device.uuid));
  return uuids;
}

// Returns all indices, devices with fewer sessions first and equals in their order.
std::vector<size_t> BySessions(const std::vector<PlacementCandidate>& devices) {
  std::vector<size_t> order(devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return devices[a].sessions < devices[b].sessions; });
  return order;
}

DeviceNames Chosen(const DeviceNames& uuids, const std::vector<size_t>& indices) {
  DeviceNames chosen;
  for (const size_t index : indices) chosen.push_back(uuids[index]);
  return chosen;
}

// The index of the device that `name` names. `uuids` are in the order of the ordinals of `whose`
// devices.
absl::StatusOr<size_t> NamedDevice(const std::vector<std::string>& uuids, absl::string_view name,
                                   absl::string_view whose) {
  if (IsUuidName(name)) {
    if (const auto found = FindByUuidName(uuids, name); found.has_value()) return *found;
    return absl::NotFoundError(
        absl::StrCat(whose, " has no device ", Shown(name), ", or several that begin so"));
  }
  uint32_t ordinal;
  if (!absl::SimpleAtoi(name, &ordinal)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device \"", Shown(name), "\": expected an ordinal or GPU-<uuid>"));
  }
  if (ordinal >= uuids.size()) {
    return absl::NotFoundError(
        absl::StrCat("device ", ordinal, ": ", whose, " has ",
                     uuids.size() == 1 ? uuids[0] : absl::StrCat(uuids.size())));
  }
  return ordinal;
}

absl::StatusOr<std::vector<size_t>> NamedDevices(const std::vector<std::string>& uuids,
                                                 const DeviceNames& wanted,
                                                 absl::string_view whose) {
  std::vector<size_t> chosen;
  for (const std::string& name : wanted) {
    const auto index = NamedDevice(uuids, name, whose);
    if (!index.ok() && chosen.empty()) return index.status();
    if (!index.ok()) break;
    if (std::find(chosen.begin(), chosen.end(), *index) != chosen.end()) {
      return absl::InvalidArgumentError(absl::StrCat("devices ", Shown(FormatDeviceNames(wanted)),
                                                     ": one of them is named twice"));
    }
    if (chosen.size() == kMaxSessionDevices) {
      return absl::InvalidArgumentError(
          absl::StrCat("a session has at most ", kMaxSessionDevices, " devices"));
    }
    chosen.push_back(*index);
  }
  return chosen;
}

}  // namespace

std::string FormatDeviceUuid(const std::string& uuid) {
  const std::string hex = absl::BytesToHexString(uuid);
  if (hex.size() != 32) return "GPU-unknown";
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

absl::StatusOr<std::vector<size_t>> PlaceSession(const std::vector<PlacementCandidate>& devices,
                                                 const DeviceNames& wanted) {
  if (devices.empty()) return absl::NotFoundError("the server has no device");
  if (wanted.empty()) return std::vector<size_t>{BySessions(devices).front()};
  return NamedDevices(UuidsOf(devices), wanted, "the server");
}

absl::StatusOr<DeviceNames> PlaceLease(const std::vector<PlacementCandidate>& devices,
                                       const DeviceNames& wanted, uint32_t count) {
  const std::vector<std::string> uuids = UuidsOf(devices);
  if (count > kMaxSessionDevices || count > devices.size()) {
    return absl::NotFoundError(
        absl::StrCat(count, " devices wanted: the server has ", devices.size()));
  }
  if (wanted.empty()) {
    std::vector<size_t> chosen = BySessions(devices);
    chosen.resize(count);
    std::sort(chosen.begin(), chosen.end());
    return Chosen(uuids, chosen);
  }
  const auto chosen = NamedDevices(uuids, wanted, "the server");
  if (!chosen.ok()) return chosen.status();
  if (chosen->size() != wanted.size()) {
    return absl::NotFoundError(
        absl::StrCat("the server has not all of the devices ", Shown(FormatDeviceNames(wanted))));
  }
  if (count != 0 && chosen->size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " devices wanted and ", chosen->size(), " named"));
  }
  return Chosen(uuids, *chosen);
}

absl::StatusOr<DeviceNames> ChooseOfLease(const DeviceNames& lease_devices,
                                          const DeviceNames& wanted) {
  if (wanted.empty()) return lease_devices;
  const auto chosen = NamedDevices(lease_devices, wanted, "the lease");
  if (!chosen.ok()) return chosen.status();
  return Chosen(lease_devices, *chosen);
}

}  // namespace warpline::server
