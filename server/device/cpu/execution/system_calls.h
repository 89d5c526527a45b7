// The functions that kernels call and do not define: printf, assert, malloc, free.
//
// The handlers are like those of memory_ops. Op::r[0] is the result; the arguments begin at r[1].
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_

#include <string_view>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

struct SystemCall {
  const char* name;
  // 'i' or 'l' for 32 and 64 bits: first the result ('v' for none), then the arguments.
  const char* signature;
  MemoryFn fn;
};

// Returns null for another name.
const SystemCall* FindSystemCall(std::string_view name);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_SYSTEM_CALLS_H_
