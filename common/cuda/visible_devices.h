// CUDA_VISIBLE_DEVICES, read as CUDA reads it.
#ifndef WARPLINE_COMMON_CUDA_VISIBLE_DEVICES_H_
#define WARPLINE_COMMON_CUDA_VISIBLE_DEVICES_H_

#include <cstddef>
#include <string>

namespace warpline {

struct VisibleDevices {
  bool none = false;   // The application wants to see no device.
  std::string device;  // As in Hello.device: "" for the server's choice, "0,2", "GPU-8c0f,GPU-1".
};

// Parses the variable's value; `value` is nullptr where the variable is unset. Of the names that
// are left, at most the first `most` count.
//
// The first entry gives the kind of all entries: ordinals, "GPU-" or "MIG-" with as many digits of
// a UUID as tell the device from all others. The list ends before its first entry of another kind,
// so "", "-1" and "NoDevFiles" hide every device. An ordinal ends at the first character that is no
// digit, as in strtoul(): "1gpu" is 1. White space around an entry does not count, except before a
// UUID that comes first: such a list hides every device. Upper and lower case are the same in a
// UUID, and what follows a whole one does not count. A device that is named twice hides them all;
// that two UUIDs are of one device only the server can tell. Measured with driver 580 on an H100.
VisibleDevices ParseVisibleDevices(const char* value, size_t most);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_VISIBLE_DEVICES_H_
