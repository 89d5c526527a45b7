// Several devices in one session.
//
// Devices are numbered from 0, in the order that the session asked for. An object of a session
// belongs to the device whose number is in the highest byte of its handle: streams, modules, links,
// arrays, graphs, memory handles and mappings. (Images belong to no device, a kernel belongs to its
// module's, and an event to that of the stream on which it was last recorded.) Each device has a
// part of the arena; the parts are of the same size and in the order of the devices, and the
// physical memory in a part is that device's own.
#ifndef WARPLINE_PROTO_DEVICES_H_
#define WARPLINE_PROTO_DEVICES_H_

#include <bit>
#include <cstdint>

namespace warpline {

inline constexpr uint32_t kMaxSessionDevices = 16;
inline constexpr int kHandleDeviceShift = 56;

constexpr uint32_t DeviceOfHandle(uint64_t handle) {
  return static_cast<uint32_t>(handle >> kHandleDeviceShift);
}
constexpr uint64_t HandleOnDevice(uint32_t device, uint64_t number) {
  return uint64_t{device} << kHandleDeviceShift | number;
}

// The size of each device's part of an arena, whose size is a power of two. `devices` must be at
// least 1.
constexpr uint64_t DeviceArenaBytes(uint64_t arena_bytes, uint32_t devices) {
  return arena_bytes / std::bit_ceil(devices);
}

// The device whose part of the arena [base, base + bytes) holds `address`; `devices` or more when
// the address is outside of all parts.
constexpr uint64_t DeviceOfAddress(uint64_t address, uint64_t base, uint64_t bytes,
                                   uint32_t devices) {
  return address < base ? devices : (address - base) / DeviceArenaBytes(bytes, devices);
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_DEVICES_H_
