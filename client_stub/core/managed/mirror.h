// One range of host memory that a range of device memory mirrors. It knows which side has the newer
// bytes of each page.
//
// A page that the device may have written is inaccessible in this process, and its bytes are
// fetched when it is touched. A page that the host has written is sent to the device before the
// device's next work. A page that is not touched does not move.
//
//   Mirror mirror({.host = host, .device = device, .bytes = 16 << 12}, Mirror::kHost, &link);
//   mirror.GiveToDevice(0, mirror.bytes());      // Before a kernel that may access the range.
//   mirror.Touch(5 << 12, /*write=*/false);      // From the handler of a fault on the sixth page.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// Carries bytes from one side to the other.
class MirrorLink {
 public:
  virtual ~MirrorLink() = default;
  // Sends host bytes to device memory. They arrive before any work that is asked for later.
  virtual CUresult Push(uint64_t device, std::string_view bytes) = 0;
  // Reads device memory once all work that was asked for so far is complete.
  virtual CUresult Pull(void* to, uint64_t device, uint64_t bytes) = 0;
};

// Thread-compatible, while any thread may touch its pages at any time.
class Mirror {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  enum State : uint8_t {
    kDevice,  // Inaccessible: the device may have written it.
    kSame,    // Readable.
    kHost,    // Writable: the host may have written it.
  };

  // A range of device addresses.
  struct Extent {
    uint64_t begin;
    uint64_t end;
  };
  // Whole pages at `host`, which are mapped already and writable; all pages begin in the state
  // `state`. With `extents` the device's side, from `device` on, exists only there, and no other
  // bytes of the pages move. `link` is borrowed.
  struct Place {
    uint64_t host;
    uint64_t device;
    uint64_t bytes;
    std::vector<Extent> extents = {};
  };
  Mirror(const Place& place, State state, MirrorLink* link);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Replaces the extents of the place.
  void SetExtents(std::vector<Extent> extents) { extents_ = std::move(extents); }

  uint64_t host() const { return host_; }
  uint64_t device() const { return device_; }
  uint64_t bytes() const { return states_.size() * kPageBytes; }

  // Whether the host may read any page, so that there is something to do before the device works.
  bool host_has_any() const { return host_pages_ != 0; }

  // Lets the device read and write [offset, offset + bytes) from now on: sends what the host has
  // written there, and takes those pages from the host.
  CUresult GiveToDevice(uint64_t offset, uint64_t bytes);
  // Makes the page at `offset` ready for a load or, with `write`, a store. Pages behind it are made
  // ready too, more and more of them while pages are touched one after another. When the device's
  // bytes cannot be had, the host goes on with its own bytes and this returns the error.
  CUresult Touch(uint64_t offset, bool write);
  // Makes all of [offset, offset + bytes) ready in the same way, and nothing behind it.
  CUresult Fetch(uint64_t offset, uint64_t bytes, bool write);
  // Gives all pages to the host, with the device's newer bytes.
  CUresult GiveToHost() { return Fetch(0, bytes(), /*write=*/true); }

  // Drops the bytes of [offset, offset + bytes), which are whole pages: what the host has written
  // there is not sent, and with `to_host` the host goes on with the bytes that it has instead of
  // asking the device.
  void Discard(uint64_t offset, uint64_t bytes, bool to_host);

  // Whether a touch at `offset` has to ask the device.
  bool OnDevice(uint64_t offset) const { return states_[offset / kPageBytes] == kDevice; }
  bool AnyOnDevice(uint64_t offset, uint64_t bytes) const;

 private:
  size_t RunEnd(size_t first, size_t end) const;
  void SetStates(size_t first, size_t end, State state);
  bool Protect(size_t first, size_t end, int protection) const;
  CUresult Allow(size_t first, size_t end, bool write);
  CUresult Push(size_t first, size_t end);
  CUresult Pull(size_t first, size_t end, bool write);
  // Returns the parts of pages [first, end) that the device has too.
  std::vector<Extent> Shared(size_t first, size_t end) const;

  const uint64_t host_;
  const uint64_t device_;
  std::vector<Extent> extents_;
  MirrorLink* const link_;
  std::vector<State> states_;
  size_t host_pages_ = 0;  // The number of pages that are not kDevice.
  size_t next_page_ = 0;   // The page behind those of the latest Touch().
  size_t window_;          // The number of pages that the next Touch() takes.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_H_
