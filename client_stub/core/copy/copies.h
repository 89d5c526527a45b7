// Copies and fills of memory. Each function checks both ends and then sends the command.
//
// Host memory that is a source is read before the call returns, whatever kind of memory it is;
// page-locked memory is read after the earlier writes to it that were asked for. A copy to host
// memory returns when the data is there, unless it is asynchronous and the memory is page-locked
// (host_memory.h).
#ifndef WARPLINE_CLIENT_STUB_CORE_COPY_COPIES_H_
#define WARPLINE_CLIENT_STUB_CORE_COPY_COPIES_H_

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/runtime/objects.h"
#include "common/cuda/box.h"

namespace warpline::stub {

enum class Completion { kSynchronous, kAsynchronous };

// All return CUDA_ERROR_INVALID_VALUE for a device range that is not within one allocation or
// variable, and for host memory at nullptr. A copy of 0 bytes is CUDA_SUCCESS.
//
// The address of an end tells whose memory it is, as in CUDA; what the caller calls it is a hint.
// An end that is called the host's may be any memory; one that is called the device's may also be
// page-locked memory of the host, but no other memory of the host.
//
// A synchronous copy to the device comes before everything that any stream is given after it,
// although the call does not wait for the device.
CUresult CopyToDevice(Stream* stream, uint64_t to, const void* from, uint64_t bytes,
                      Completion completion);
CUresult CopyFromDevice(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                        Completion completion);
// Between devices, a synchronous copy comes after everything that either device was given before
// it, and before everything that any stream is given after it.
CUresult CopyOnDevice(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                      Completion completion);
// Decides by its address whether each end is the device's or the host's.
CUresult CopyByAddress(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                       Completion completion);

// Sets `count` elements of `width` bytes (1, 2 or 4). A synchronous call waits if they are host
// memory that the devices reach.
CUresult Fill(Stream* stream, uint64_t to, uint32_t value, uint32_t width, uint64_t count,
              Completion completion);
CUresult FillRows(Stream* stream, uint64_t to, uint64_t pitch, uint32_t value, uint32_t width,
                  uint64_t columns, uint64_t rows, Completion completion);

// Returns true for memory that the host reads without a fault that would wait for the device.
bool IsReadWithoutFault(uint64_t address);

// One end of a copy of a box.
struct Box {
  BoxPlace place;
  bool device = false;
};
// Checks one end of a copy that is about to be sent, makes the memory ready for it, and sets
// `device` by the address. Host memory that the device reaches becomes the device's. `work` lives
// until the copy is sent.
CUresult UseBox(const Stream* stream, const BoxExtent& extent, Box* box,
                MirroredMemory::Work* work);
// Returns when host memory that is to be read holds everything that the stream's order puts before
// the read.
CUresult AwaitSource(const void* from, uint64_t bytes);
// Reads a box of host memory and calls send(part, rows) for each of its parts in turn. The part's
// rows lie in `rows` without gaps and take at most kMaxTail bytes. Stops at the first error.
CUresult SendRows(const BoxPlace& from, const BoxExtent& extent,
                  absl::FunctionRef<CUresult(const BoxPart& part, std::string_view rows)> send);
CUresult CopyBox(Stream* stream, const Box& to, const Box& from, const BoxExtent& extent,
                 Completion completion);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_COPY_COPIES_H_
