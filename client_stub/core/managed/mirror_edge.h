// A part of a page of host memory that a range of device memory mirrors.
//
// Such a page also holds memory that is not the range's: other variables of the program, what the C
// library keeps beside them, and memory of this client. The client would wait for itself if it had
// to ask the device for that. So these pages are never protected, unlike those of a Mirror. The
// host's bytes are compared with what both sides had last, and sent before the device works. The
// device's come after work and not when they are touched.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_EDGE_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_EDGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/mirror.h"

namespace warpline::stub {

// Thread-compatible, while any thread may read and write the host's bytes at any time.
class MirrorEdge {
 public:
  // `bytes` at `host`, which the device has at `device`. `link` is borrowed.
  MirrorEdge(uint64_t host, uint64_t device, uint64_t bytes, MirrorLink* link)
      : host_(host), device_(device), bytes_(bytes), link_(link) {}

  uint64_t device() const { return device_; }
  uint64_t bytes() const { return bytes_; }

  // Sends the bytes that the host has changed, and no others: the device may have newer ones.
  CUresult GiveToDevice();
  // Returns false while the device has had no bytes.
  bool given() const { return !both_.empty(); }
  // Takes the bytes that the device has changed, and leaves the others as they are. `theirs` are
  // all of the device's. given() must be true.
  void Take(std::string theirs);

 private:
  const uint64_t host_;
  const uint64_t device_;
  const uint64_t bytes_;
  MirrorLink* const link_;
  std::string both_;  // The bytes that both sides had last; empty before the first.
};

// Returns the edges of a range at `host`, which are in the pages that it shares with others: none,
// one, or two.
std::vector<MirrorEdge> EdgesOf(uint64_t host, uint64_t device, uint64_t bytes, MirrorLink* link);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_EDGE_H_
