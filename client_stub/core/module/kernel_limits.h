// The attributes of a kernel that the check of a launch needs.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_LIMITS_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_LIMITS_H_

namespace warpline::stub {

struct KernelLimits {
  int max_threads_per_block = 0;
  int registers = 0;
  int max_dynamic_shared_bytes = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_LIMITS_H_
