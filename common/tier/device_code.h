// What device code lies in the bytes of a program or a library, as far as the guarded tier asks:
// PTX, which the guard rewrites, or machine code alone, which only a process of its own may run.
//
// It reads containers' headers and looks into machine code that has no PTX beside it. It is safe
// for whatever bytes. Thread-safe.
//
//   const DeviceCode code = FindDeviceCode(bytes);
//   const std::string why = ObstacleOn(code, 90);
//   if (!why.empty()) LogInfo(path, ": ", why);
#ifndef WARPLINE_COMMON_TIER_DEVICE_CODE_H_
#define WARPLINE_COMMON_TIER_DEVICE_CODE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace warpline::tier {

// What one container has.
struct ContainerCode {
  // The targets of its PTX, such as "75,90a"; empty without any.
  std::string targets;
  // It has machine code with functions in it and no PTX.
  bool machine_code_alone = false;
};

struct DeviceCode {
  // Why no device takes it in the guarded tier; empty where nothing stands in the way.
  std::string obstacle;
  // The targets of each container with PTX, each different text once. A device has to take one
  // target of each.
  std::set<std::string> targets;

  bool any() const { return !obstacle.empty() || !targets.empty(); }
  friend bool operator==(const DeviceCode&, const DeviceCode&) = default;
};

// More different targets are an obstacle: no compiler makes so many.
inline constexpr size_t kMostTargets = 64;

// So many bytes of compressed machine code are looked into in one file. What is beyond is taken to
// have functions.
inline constexpr uint64_t kMostLookedInto = uint64_t{64} << 20;

// `container` is one of fatbin::FindContainers(); what is none by its contents has nothing. What is
// decompressed is taken off `*left_bytes`.
ContainerCode CodeOfContainer(std::string_view container, uint64_t* left_bytes);

// Looks for containers in `bytes`, and at the first obstacle no further.
DeviceCode FindDeviceCode(std::string_view bytes);

// Why a device of compute capability `sm`, such as 90, does not take the code; empty if it does.
std::string ObstacleOn(const DeviceCode& code, int sm);

// The text has no newline. Reading it gives nothing for what FormatDeviceCode() does not write.
std::string FormatDeviceCode(const DeviceCode& code);
std::optional<DeviceCode> ParseDeviceCode(std::string_view text);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_DEVICE_CODE_H_
