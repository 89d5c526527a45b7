// Arrays, mipmapped arrays, and the copies to and from them.
//
// Their memory lies in the worker's context, outside the arena; this process knows only their
// shapes.
#ifndef WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_
#define WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Set up before its handle becomes valid, and constant from then on.
struct Array {
  uint64_t wire = 0;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  unsigned int levels = 0;  // Set for mipmapped arrays only.
  Context* context = nullptr;
  uint64_t whole = 0;  // The handle of the array that this is a level or plane of; 0 for none.
  uint64_t charged_bytes = 0;  // The bytes that cuMemGetInfo counts; 0 for parts.

  // Returns the size of one element; 0 for formats whose elements have no size of their own.
  uint64_t element_bytes() const;
};

// Both return nullptr for a handle that names no such array.
Array* FindArray(CUarray handle);
Array* FindMipmappedArray(CUmipmappedArray handle);

// Both wait for the device's result.
CUresult CreateArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape, CUarray* array);
CUresult CreateMipmappedArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                              unsigned int levels, CUmipmappedArray* array);
// Both give the same handle each time. CUDA_ERROR_INVALID_VALUE for a level or plane that the array
// lacks.
CUresult GetLevel(CUmipmappedArray array, unsigned int level, CUarray* part);
CUresult GetPlane(CUarray array, unsigned int plane, CUarray* part);

// Both destroy the array's parts with it. CUDA_ERROR_INVALID_HANDLE for a handle that names no such
// array.
CUresult DestroyArray(CUarray handle);
CUresult DestroyMipmappedArray(CUmipmappedArray handle);
void DestroyArraysOf(const Context* context);

// One end of a copy: a place in an array, in bytes, rows and slices, or a box of memory.
struct CopyEnd {
  const Array* array = nullptr;
  uint64_t x = 0;
  uint64_t y = 0;
  uint64_t z = 0;
  Box box;
};

// Works like CopyBox(), but at least one end is an array. CUDA_ERROR_INVALID_VALUE for a box that
// leaves the array.
CUresult CopyArrayBox(Stream* stream, const CopyEnd& to, const CopyEnd& from,
                      const BoxExtent& extent, Completion completion);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_
