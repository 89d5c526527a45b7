// Reads the ELF objects that clang makes of policies (clang -target bpf -mcpu=v2 -O2 -c).
//
// What counts of an object:
//   a section that is executable   one program, which the section is named for
//   "version"                      a uint32_t: the version of the interface it was compiled for
//   "always"                       a uint32_t, where there is one: WARPLINE_ASK_ALWAYS()
//   "maps"                         one MapDefinition for each map, named by a symbol
//   relocations of programs        wide loads of a map's address
// Other sections, such as debug information, are ignored, unless a program refers to them.
#ifndef WARPLINE_POLICY_BPF_OBJECT_H_
#define WARPLINE_POLICY_BPF_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/map.h"

namespace warpline::policy::bpf {

inline constexpr size_t kMostObjectBytes = size_t{1} << 20;
inline constexpr size_t kMostSections = 256;
inline constexpr size_t kMostMaps = 64;
inline constexpr size_t kMostNameBytes = 64;
inline constexpr uint32_t kMostAskAlwaysMs = 10'000;

// An entry of "maps", as `struct warpline_map` of policy/include/warpline_policy.h has it.
struct MapDefinition {
  uint32_t kind = 0;
  uint32_t key_bytes = 0;
  uint32_t value_cells = 0;
  uint32_t flags = 0;
  uint64_t capacity = 0;
};
static_assert(sizeof(MapDefinition) == 24);

struct Object {
  struct Program {
    std::string section;
    // Wide loads of maps have kMapReference as their source, and an index into `maps`.
    std::vector<Instruction> code;
  };

  uint32_t abi_version = 0;
  uint32_t ask_always_ms = 0;     // Of WARPLINE_ASK_ALWAYS(); 0 where the object does not say it.
  bool expects_arrivals = false;  // It has WARPLINE_EXPECT_ARRIVALS().
  std::vector<MapShape> maps;     // In the order of "maps"; their shapes are not checked.
  std::vector<Program> programs;
};

// INVALID_ARGUMENT with the reason for anything that is not such an object. The bytes may be
// hostile: no offset, size or index in them is believed. Linear in their number. Thread-safe.
absl::StatusOr<Object> ReadObject(std::string_view bytes);

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_OBJECT_H_
