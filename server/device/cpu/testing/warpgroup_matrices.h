// Matrices for wgmma, as a program would lay them out in shared memory and hold them in registers.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_WARPGROUP_MATRICES_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_WARPGROUP_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace warpline::cpu {

inline constexpr int kWarpgroupThreads = 128;

// --- Elements of a type such as "f16". Whole numbers of three digits are exact in all but bytes.
int ElementBytes(std::string_view type);
uint32_t EncodeElement(std::string_view type, int value);
int DecodeElement(std::string_view type, uint32_t bits);

// What a matrix descriptor says. Its lines are the rows of A or the columns of B.
struct MatrixLayout {
  uint32_t mode = 0;        // As in a descriptor: not swizzled, by 128, 64 or 32 bytes
  bool transposed = false;  // Elements of neighbouring lines follow each other.
  uint32_t start = 0;

  uint32_t pitch() const;
  uint32_t leading_bytes() const;  // These leave room for every line.
  uint32_t stride_bytes() const;
  uint64_t descriptor() const;
  // Where element `k` of a line is in shared memory.
  uint32_t OffsetOf(int line, int k, int element_bytes) const;
};

using ElementFn = std::function<int(int line, int k)>;
void PlaceMatrix(const MatrixLayout& layout, std::string_view type, int lines,
                 const ElementFn& element, std::vector<uint8_t>* shared);

// The four registers of A of each thread, thread by thread.
std::vector<uint32_t> RegistersOfA(std::string_view type, const ElementFn& element);

// The registers of D of each thread, thread by thread, and their elements.
std::vector<uint32_t> RegistersOfD(std::string_view type, int columns, const ElementFn& element);
int ElementOfD(std::string_view type, int columns, const std::vector<uint32_t>& registers, int row,
               int column);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_WARPGROUP_MATRICES_H_
