// A range of device memory that a command names, and how its size follows from the command's
// fields (columns `reads` and `writes` of proto/calls.toml).
//
// The fields come from a tenant, so every size saturates: what is too large for 64 bits is the
// largest number, which lies in no arena.
#ifndef WARPLINE_PROTO_MEMORY_SPAN_H_
#define WARPLINE_PROTO_MEMORY_SPAN_H_

#include <cstdint>

#include "common/cuda/box.h"

namespace warpline {

// [address, address + bytes), which may wrap around. Empty where `bytes` is 0.
struct MemorySpan {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// Whether all of `span` lies in [base, base + bytes).
constexpr bool Within(const MemorySpan& span, uint64_t base, uint64_t bytes) {
  return span.bytes <= bytes && span.address >= base && span.address - base <= bytes - span.bytes;
}

// Whether `span` does not wrap around the end of the address space.
constexpr bool EndsInAddressSpace(const MemorySpan& span) {
  return span.bytes == 0 || span.address <= ~uint64_t{0} - (span.bytes - 1);
}

constexpr uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t{0} : product;
}

constexpr uint64_t Sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? ~uint64_t{0} : sum;
}

// The distance from the first byte of the first row to the end of the last row.
constexpr uint64_t RowsBytes(uint64_t pitch, uint64_t row_bytes, uint64_t rows) {
  return row_bytes == 0 || rows == 0 ? 0 : Sum(Product(pitch, rows - 1), row_bytes);
}

// The distance from the first byte to the end of the last byte of a box of rows and slices. Returns
// the largest number for what is no box (BoxSpan() of common/cuda/box.h), and 0 when it has no
// bytes at all.
inline uint64_t BoxBytes(uint64_t pitch, uint64_t slice, uint64_t width, uint64_t height,
                         uint64_t depth) {
  if (width == 0 || height == 0 || depth == 0) return 0;
  uint64_t span = 0;
  return BoxSpan({0, pitch, slice}, {width, height, depth}, &span) ? span : ~uint64_t{0};
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_MEMORY_SPAN_H_
