// What an embedder offers to eBPF programs: hooks with their contexts, and helper functions.
//
// All of it is tables, which the embedder writes as constants. They outlive the programs that were
// loaded against them, and are trusted: the verifier is right only if they are.
#ifndef WARPLINE_POLICY_BPF_HOST_INTERFACE_H_
#define WARPLINE_POLICY_BPF_HOST_INTERFACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace warpline::policy::bpf {

// Bytes of a context that hold one number, which lies at a multiple of its size.
struct Field {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  bool readable = true;
};

// Where programs are called. A program can read a field, or an aligned part of it, and nothing else
// of the context.
struct Hook {
  std::string_view name;       // The section of the object.
  uint32_t context_bytes = 0;  // A context begins at a multiple of 8.
  absl::Span<const Field> fields;
};

enum class Argument : uint8_t {
  kNone,
  kScalar,
  kMap,  // Comes as the address of a Map.
  kKey,  // Comes as the address of as many bytes as a key of the map before it has.
};

enum class Result : uint8_t {
  kScalar,
  kValueOrNull,  // The address of the cells of a value of the helper's map, or 0.
};

inline constexpr size_t kMostArguments = 5;

// A helper must be bounded in time and memory, and must not throw. It runs on the thread that runs
// the program.
using HelperFunction = uint64_t (*)(void* self, const uint64_t* arguments);

struct Helper {
  int32_t number = 0;  // The immediate of the call.
  std::string_view name;
  Result result = Result::kScalar;
  std::array<Argument, kMostArguments> arguments = {};  // kNone from the first that is not taken.
  HelperFunction call = nullptr;
};

struct HostInterface {
  uint32_t abi_version = 0;
  absl::Span<const Hook> hooks;
  absl::Span<const Helper> helpers;
  void* self = nullptr;                         // What helpers get; outlives the programs.
  uint64_t most_map_bytes = uint64_t{1} << 20;  // Of all maps of a program.
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_HOST_INTERFACE_H_
