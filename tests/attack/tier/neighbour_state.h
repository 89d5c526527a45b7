// The state of a neighbour (neighbour.cu), which it writes into a file. The programs that attack it
// map the file, because an attacker is taken to know all addresses and all handles.
#ifndef WARPLINE_TESTS_ATTACK_TIER_NEIGHBOUR_STATE_H_
#define WARPLINE_TESTS_ATTACK_TIER_NEIGHBOUR_STATE_H_

#include <atomic>
#include <cstdint>

namespace warpline::attack {

// Each word of a neighbour's secrets is one of these. A neighbour has kSecretsOfOne of them to
// itself.
inline constexpr uint32_t kFirstSecret = 0x5ec00000;
inline constexpr uint32_t kSecretsOfOne = 0x10000;
inline constexpr uint32_t kMostNeighbours = 16;

inline constexpr bool IsSecret(uint32_t word) {
  return word - kFirstSecret < kMostNeighbours * kSecretsOfOne;
}

// All zeros until `rounds` is not. tier_suite.py reads the first four.
struct NeighbourState {
  std::atomic<uint64_t> rounds;  // All of its checks were made so many times ...
  std::atomic<uint64_t> wrong;   // ... and in so many of them something was wrong.
  uint64_t memory;               // Device memory, kMemoryWords of secrets
  uint64_t variable;             // A __device__ variable, kVariableWords of secrets
  uint64_t constants;            // A __constant__ one, kConstantWords
  uint64_t pool_memory;          // Memory of a pool, kPoolWords
  uint64_t pinned;               // Page-locked memory of the host
  // Handles, as the driver's API has them.
  uint64_t context, stream, event, module, function, library, kernel, graph, exec, pool;

  static constexpr uint32_t kMemoryWords = 8192, kVariableWords = 2048, kConstantWords = 64,
                            kPoolWords = 1024;
};

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_NEIGHBOUR_STATE_H_
