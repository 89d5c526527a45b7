// Arrays, mipmapped ones among them, and what copies them.
//
// They lie in the worker's context, outside the arena, and are known here by their sizes alone.
#ifndef WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_
#define WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Set before its handle becomes valid, and constant then.
struct Array {
  uint64_t wire = 0;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  unsigned int levels = 0;  // Of a mipmapped one.
  Context* context = nullptr;
  uint64_t whole = 0;          // The handle of that of which it is a level or plane; 0 for none.
  uint64_t charged_bytes = 0;  // What cuMemGetInfo counts; 0 for parts.

  // Of one element; 0 for formats that have none of their own.
  uint64_t element_bytes() const;
};

// nullptr for what is none.
Array* FindArray(CUarray handle);
Array* FindMipmappedArray(CUmipmappedArray handle);

// Both wait for what the device makes of it.
CUresult CreateArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape, CUarray* array);
CUresult CreateMipmappedArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                              unsigned int levels, CUmipmappedArray* array);
// The same handle each time. CUDA_ERROR_INVALID_VALUE for what the array does not have.
CUresult GetLevel(CUmipmappedArray array, unsigned int level, CUarray* part);
CUresult GetPlane(CUarray array, unsigned int plane, CUarray* part);

// With its parts. CUDA_ERROR_INVALID_HANDLE for what is none.
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

// As CopyBox(), where at least one end is an array. CUDA_ERROR_INVALID_VALUE for what leaves it.
CUresult CopyArrayBox(Stream* stream, const CopyEnd& to, const CopyEnd& from,
                      const BoxExtent& extent, Completion completion);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_COPY_ARRAYS_H_
