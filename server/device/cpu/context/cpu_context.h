// The CPU device's context: memory, streams, modules and launches of one worker.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_

#include "server/device/bounded_grids.h"
#include "server/device/context_of.h"
#include "server/device/cpu/context/cpu_arrays.h"
#include "server/device/cpu/context/cpu_copies.h"
#include "server/device/cpu/context/cpu_launches.h"
#include "server/device/cpu/context/cpu_libraries.h"
#include "server/device/cpu/context/cpu_links.h"
#include "server/device/cpu/context/cpu_memory.h"
#include "server/device/cpu/context/cpu_modules.h"
#include "server/device/cpu/context/cpu_partitions.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/context/cpu_streams.h"
#include "server/device/facets/lacking.h"
#include "server/device/shared_parts.h"

namespace warpline::cpu {

// Destroying a context drops queued work and stops running kernels, also those of the contexts that
// were opened with it.
using CpuContext = device::ContextOf<CpuShared, CpuMemory, CpuStreams, CpuCopies, CpuLaunches,
                                     CpuModules, CpuLinks, CpuArrays, device::NoTextures,
                                     device::NoGraphs, CpuPartitions, CpuLibraries>;

// A session's on a shared device: without what it would not have on a GPU either.
using CpuSharedContext =
    device::ContextOf<CpuShared, CpuMemory, CpuStreams, device::WithoutWaits<CpuCopies>,
                      device::WithBoundedGrids<CpuLaunches>, CpuModules, device::NoLinks,
                      device::NoArrays, device::NoTextures,
                      device::WithBoundedNodes<device::NoGraphs>, device::NoPartitions,
                      CpuLibraries>;

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_CONTEXT_H_
