// Kernels that go to a neighbour's addresses.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

using Place = uint64_t NeighbourState::*;

// What kernels write; no secret.
constexpr uint32_t kTrace = 0x0badf00d;

absl::StatusOr<Loot> Brought(Home* home, CUresult launched, const std::string& what) {
  const CUresult ended = launched == CUDA_SUCCESS ? home->Wait() : launched;
  if (ended != CUDA_SUCCESS) {
    return absl::InternalError(absl::StrCat("CUDA error ", static_cast<int>(ended)));
  }
  return Loot{home->ReadMemory(), what};
}

template <Place kPlace>
absl::StatusOr<Loot> Read(Home* home, const TierTarget& target) {
  uint64_t from = target.neighbour->*kPlace, to = home->memory();
  uint32_t words = NeighbourState::kConstantWords;
  return Brought(home, home->Launch("copy", {&from, &to, &words}), "a kernel read there");
}

template <Place kPlace>
absl::StatusOr<Loot> Write(Home* home, const TierTarget& target) {
  uint64_t to = target.neighbour->*kPlace;
  uint32_t words = NeighbourState::kConstantWords, value = kTrace;
  return Brought(home, home->Launch("fill", {&to, &words, &value}), "a kernel wrote there");
}

// The neighbour's addresses, and such as become them if bits are lost.
std::vector<uint64_t> Pointers(const TierTarget& target) {
  std::vector<uint64_t> pointers;
  for (const Place place : {&NeighbourState::memory, &NeighbourState::variable,
                            &NeighbourState::constants, &NeighbourState::pool_memory}) {
    const uint64_t address = target.neighbour->*place;
    pointers.push_back(address);
    for (int bit = 32; bit < 64; ++bit) pointers.push_back(address ^ uint64_t{1} << bit);
  }
  return pointers;
}

// The pointers go behind the half of its memory that the kernel writes to.
absl::StatusOr<uint64_t> PutPointers(Home* home, const std::vector<uint64_t>& pointers) {
  std::vector<uint32_t> words(Home::kWords);
  std::memcpy(words.data() + Home::kWords / 2, pointers.data(),
              pointers.size() * sizeof(pointers[0]));
  if (home->Write(words) != CUDA_SUCCESS) return absl::InternalError("no pointers");
  return home->memory() + Home::kBytes / 2;
}

absl::StatusOr<Loot> ReadByPointers(Home* home, const TierTarget& target) {
  const std::vector<uint64_t> pointers = Pointers(target);
  auto from = PutPointers(home, pointers);
  if (!from.ok()) return from.status();
  uint64_t to = home->memory();
  auto count = static_cast<uint32_t>(pointers.size());
  return Brought(home, home->Launch("follow", {&*from, &to, &count}),
                 absl::StrCat("a kernel followed ", count, " pointers"));
}

absl::StatusOr<Loot> WriteByPointers(Home* home, const TierTarget& target) {
  const std::vector<uint64_t> pointers = Pointers(target);
  auto from = PutPointers(home, pointers);
  if (!from.ok()) return from.status();
  auto count = static_cast<uint32_t>(pointers.size());
  uint32_t value = kTrace;
  return Brought(home, home->Launch("trample", {&*from, &count, &value}),
                 absl::StrCat("a kernel wrote by ", count, " pointers"));
}

constexpr TierAttack kAttacks[] = {
    {"kernel_reads_memory", &Read<&NeighbourState::memory>},
    {"kernel_writes_memory", &Write<&NeighbourState::memory>},
    {"kernel_reads_variable", &Read<&NeighbourState::variable>},
    {"kernel_writes_variable", &Write<&NeighbourState::variable>},
    {"kernel_reads_constants", &Read<&NeighbourState::constants>},
    {"kernel_writes_constants", &Write<&NeighbourState::constants>},
    {"kernel_reads_pool_memory", &Read<&NeighbourState::pool_memory>},
    {"kernel_writes_pool_memory", &Write<&NeighbourState::pool_memory>},
    {"kernel_reads_pinned_memory", &Read<&NeighbourState::pinned>},
    {"kernel_writes_pinned_memory", &Write<&NeighbourState::pinned>},
    {"kernel_reads_by_pointers", &ReadByPointers},
    {"kernel_writes_by_pointers", &WriteByPointers},
};

}  // namespace

absl::Span<const TierAttack> KernelAttacks() { return kAttacks; }

}  // namespace warpline::attack
