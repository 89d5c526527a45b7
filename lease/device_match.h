// Finds the device that a name means, as CUDA does for the names in CUDA_VISIBLE_DEVICES.
#ifndef WARPLINE_LEASE_DEVICE_MATCH_H_
#define WARPLINE_LEASE_DEVICE_MATCH_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpline {

// Whether `name` is "GPU-" or "MIG-" and more: a UUID, or as much of its beginning as tells the
// device from the others.
bool IsUuidName(absl::string_view name);

// Returns the index of the one of `uuids`, which are "GPU-<uuid>", that `name` is or with which it
// begins. None when there is no such device or there are several. A MIG instance is a device like
// any other, and upper and lower case are the same. Stateless.
std::optional<size_t> FindByUuidName(const std::vector<std::string>& uuids, absl::string_view name);

}  // namespace warpline

#endif  // WARPLINE_LEASE_DEVICE_MATCH_H_
