// Parts of devices: descriptions of multiprocessors (CUdevResource), and how they are split.
//
// A description that the application holds says which of this process's splits it comes from. The
// server is asked for every split, because the device's driver decides what it gives, and remembers
// none: what is to be used is named by the splits that lead there (common/cuda/sm_path.h).
//
// All functions are thread-safe.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_SM_RESOURCES_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_SM_RESOURCES_H_

#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"
#include "common/cuda/sm_path.h"

namespace warpline::stub {

// Describes the multiprocessors at the path. Where the server has no parts to give, the whole
// device is described by its attributes, and can be neither split nor used.
CUresult DescribeResource(Device* device, const std::vector<SmStep>& path, CUdevResource* resource);

// Works like cuDevSmResourceSplitByCount.
CUresult SplitResource(CUdevResource* result, unsigned int* groups, const CUdevResource* input,
                       CUdevResource* remaining, unsigned int flags, unsigned int least);

// Works like cuDevResourceGenerateDesc. Equal descriptions give the same descriptor.
CUresult DescriptorOf(const CUdevResource* resources, unsigned int count,
                      CUdevResourceDesc* descriptor);

// Finds what a descriptor stands for; the path stays until the process ends. Returns false for a
// number that is none.
bool FindDescriptor(CUdevResourceDesc descriptor, Device** device,
                    const std::vector<SmStep>** path);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_SM_RESOURCES_H_
