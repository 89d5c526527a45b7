// How much device memory the variables of a module take, as its code declares them.
//
// A tenant made the code, so nothing in it is believed beyond what the driver would allocate for
// it. What cannot be told counts as kTooManyBytes, which no quota has.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_BYTES_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_BYTES_H_

#include <cstdint>
#include <string_view>

namespace warpline::worker {

inline constexpr uint64_t kTooManyBytes = uint64_t{1} << 62;

// The sum of a cubin's sections of global variables.
uint64_t CubinVariableBytes(std::string_view cubin);

// The sum of the `.global` variables that a PTX text declares, wherever in it, but for those that
// it declares as defined elsewhere. An array's length must be a plain number.
uint64_t PtxVariableBytes(std::string_view ptx);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_BYTES_H_
