// What kernels call that is no function of theirs: printf, assert, malloc, free.
//
// Handlers as in memory_ops. Op::r[0] is the result, r[1] and on are the arguments.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_

#include <string_view>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

struct SystemCall {
  const char* name;
  // 'i' or 'l' for 32 and 64 bits: the result ('v' for none), then the arguments.
  const char* signature;
  MemoryFn fn;
};

// Null for a name that is not one of them.
const SystemCall* FindSystemCall(std::string_view name);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_
