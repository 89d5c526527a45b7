// Reads calls of libraries' functions that a server executes for a client (cublas.toml): which
// device memory a call touches, and whether its arguments may be passed on.
//
// NVIDIA's host code gets these arguments in a process that many tenants share. So nothing is
// passed on that is outside the ranges that the library documents, and the extents of operands are
// computed in 128 bits.
//
//   const LibraryFunction* function = FindLibraryFunction(command.function);
//   LibraryCall call;
//   CudaResult result = ReadLibraryCall(*function, modes, values, &call);
//   for (const LibraryOperand& operand : call.operands) ...   // The gate admits each.
#ifndef WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_H_
#define WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_H_

#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"

namespace warpline {

// The modes of a handle with which a call is made, as they cross the wire.
struct LibraryModes {
  // cublasPointerMode_t is CUBLAS_POINTER_MODE_DEVICE: scalars and results are in device memory.
  static constexpr uint32_t kPointersToDevice = 1u << 0;
  // cublasAtomicsMode_t is CUBLAS_ATOMICS_ALLOWED.
  static constexpr uint32_t kAtomics = 1u << 1;
  // The cublasMath_t.
  static constexpr uint32_t kMathShift = 8;
  static constexpr uint32_t kMathMask = 0xffu << kMathShift;
};

enum class OperandUse : uint8_t { kRead, kWrite, kReadWrite };

// Device memory that a call touches.
struct LibraryOperand {
  uint32_t slot;  // The place of its address among the call's values.
  OperandUse use;
  uint64_t address;
  uint64_t bytes;  // 0 when the call touches none of it.
};

// The addresses of device memory that lie in device memory themselves: the operand with the same
// slot, which is the array. They can change until the call runs, so the device copies them then,
// and checks the copies.
struct LibraryAddresses {
  uint32_t slot;
  OperandUse use;
  uint64_t count;
  // Each is a multiple of `align`, a power of two, and leads to so many bytes; 0 when the call
  // touches none of them.
  uint64_t bytes;
  uint32_t align;
};

// The numbers that a call computes with, by what hardware does in a time.
enum class LibraryNumbers : uint8_t { kHalf, kSingle, kDouble };

struct LibraryCall {
  // An operand begins so many bytes later in a part of the call, for each of what the parts before
  // it had.
  struct Advance {
    uint32_t slot;
    uint64_t bytes;
  };
  static constexpr uint32_t kNoSlot = ~uint32_t{0};

  absl::InlinedVector<LibraryOperand, 6> operands;
  absl::InlinedVector<LibraryAddresses, 3> addresses;
  // The operations that it takes: multiplications and additions. The largest number for more.
  uint64_t work = 0;
  // The bytes that it reads and writes, and the products that it makes.
  uint64_t traffic = 0;
  uint64_t batches = 1;
  // The blocks of a kernel that share the work, at most; kManyBlocks where the library divides the
  // work in other ways, too.
  static constexpr uint64_t kManyBlocks = ~uint64_t{0};
  uint64_t blocks = kManyBlocks;
  LibraryNumbers numbers = LibraryNumbers::kSingle;
  // The value that is divided when the call is made in parts; kNoSlot when it cannot be.
  uint32_t divide_slot = kNoSlot;
  absl::InlinedVector<Advance, 3> advances;
};

// A call has at most this many values.
constexpr uint32_t kMostLibraryValues = 80;
// An array has at most this many addresses.
constexpr uint64_t kMostLibraryAddresses = uint64_t{1} << 16;

class LibraryCallReader;

// A function that can be called. All of them live as long as the process.
struct LibraryFunction {
  uint32_t number;  // On the wire.
  uint32_t row;     // The number of the first function of its row of the table.
  std::string_view name;
  char letter;      // 'H', 'S', 'D', 'C' or 'Z': the type of its elements; '-' where parameters
                    // say it.
  uint32_t values;  // How many 64-bit values a call has: one a parameter, and two a scalar.
  // The kind of each value: 'o' an option, 't' a cudaDataType, 'c' a compute type, 'a' an
  // algorithm, 'i' an int, 'l' a long, 's' a scalar and '.' its second half, 'm' memory, 'p' memory
  // with addresses, 'r' the memory of a result.
  std::string_view kinds;
  void (*read)(LibraryCallReader& reader);
};

// Returns nullptr for a number that no function has.
const LibraryFunction* FindLibraryFunction(uint32_t number);
absl::Span<const LibraryFunction> AllLibraryFunctions();

// Reads a call's values into `*call`. kInvalidValue for what NVIDIA's function would refuse as an
// argument, and for operands whose addresses are not aligned to their elements; kNotSupported for
// modes and types that are not passed on.
CudaResult ReadLibraryCall(const LibraryFunction& function, uint32_t modes,
                           absl::Span<const uint64_t> values, LibraryCall* call);

// Makes `*part`, as many values as `values`, the part of a call that has `count` of what the call
// is divided by, from `first` on. REQUIRES: the call can be divided, and has so many.
void DivideLibraryCall(const LibraryCall& call, absl::Span<const uint64_t> values, uint64_t first,
                       uint64_t count, absl::Span<uint64_t> part);

}  // namespace warpline

#endif  // WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_H_
