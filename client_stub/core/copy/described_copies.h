// Copies as applications and graphs describe them: boxes of memory or of arrays at either end.
#ifndef WARPLINE_CLIENT_STUB_CORE_COPY_DESCRIBED_COPIES_H_
#define WARPLINE_CLIENT_STUB_CORE_COPY_DESCRIBED_COPIES_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Both check the description and fail as cuMemcpy3D and cuMemcpy3DPeer do. The caller checks the
// contexts of a CUDA_MEMCPY3D_PEER.
CUresult CopyDescribed(Stream* stream, const CUDA_MEMCPY3D& copy, Completion completion);
CUresult CopyDescribed(Stream* stream, const CUDA_MEMCPY3D_PEER& copy, Completion completion);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_COPY_DESCRIBED_COPIES_H_
