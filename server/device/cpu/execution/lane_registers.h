// Reads and writes the registers of one lane. A register has its lanes one behind the other, each
// in as many bytes as its type, and a predicate has a bit for each lane. `slot` is the register's
// place in the frame that `regs` begins with.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_REGISTERS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_REGISTERS_H_

#include <cstdint>
#include <cstring>

namespace warpline::cpu {

template <typename T>
T Lane(const uint8_t* regs, uint32_t slot, int lane) {
  T value;
  std::memcpy(&value, regs + slot + static_cast<uint32_t>(lane) * sizeof(T), sizeof(value));
  return value;
}

template <typename T>
void SetLane(uint8_t* regs, uint32_t slot, int lane, T value) {
  std::memcpy(regs + slot + static_cast<uint32_t>(lane) * sizeof(T), &value, sizeof(value));
}

inline uint32_t PredicateBits(const uint8_t* regs, uint32_t slot) {
  return Lane<uint32_t>(regs, slot, 0);
}

inline void SetPredicateBits(uint8_t* regs, uint32_t slot, uint32_t bits) {
  SetLane(regs, slot, 0, bits);
}

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_LANE_REGISTERS_H_
