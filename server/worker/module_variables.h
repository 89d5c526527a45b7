// Whether a module has variables that kernels can write.
#ifndef WARPLINE_SERVER_WORKER_MODULE_VARIABLES_H_
#define WARPLINE_SERVER_WORKER_MODULE_VARIABLES_H_

#include <string_view>

namespace warpline::worker {

// Looks at the image of `image`, a fatbin, a cubin or PTX, that runs on a device of `sm` (such as
// 90; 0 for any PTX). Strings that the compiler made for printf and assert do not count. True when
// in doubt, as for what cannot be read. Thread-safe.
bool HasWritableVariables(std::string_view image, int sm);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MODULE_VARIABLES_H_
