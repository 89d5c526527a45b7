// A driver that executes nothing and writes down which memory it was asked to touch. It is what
// NVIDIA's driver must never be trusted with: it takes every address.
//
//   FakeDriver driver;
//   auto group = CudaGroup::Open(driver.api(), ordinals);
//   ...
//   EXPECT_EQ(driver.Take(), "DtoD 300000000000 <- 300000000040\n");
#ifndef WARPLINE_SERVER_DEVICE_CUDA_TESTING_FAKE_DRIVER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_TESTING_FAKE_DRIVER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// Not thread-safe. One exists at a time. A function that a copy, a fill, an operation on words, a
// graph, a texture or a mapping of host memory does not need is null.
class FakeDriver {
 public:
  // What cuPointerGetAttributes says of a range.
  struct Range {
    uint64_t bytes = 0;
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    bool managed = false;
    int ordinal = 0;
  };

  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverApi* api() const { return &api_; }
  void AddRange(uint64_t start, const Range& range) { ranges_[start] = range; }
  // Makes cuPointerGetAttributes fail.
  void FailToAnswer() { fails_ = true; }

  // Returns what was asked since the last time: a line for each call, with addresses in hexadecimal
  // digits. The contexts of devices are 100, 101, ...
  std::string Take() { return std::exchange(asked_, {}); }

  // --- For the functions of api().
  void Note(const std::string& line) { asked_ += line + "\n"; }
  void NoteBox(const char* call, const CUDA_MEMCPY3D& copy);
  bool fails() const { return fails_; }
  // Sets `*start` and returns the range in which the address lies; null for one in none.
  const Range* RangeOf(uint64_t address, uint64_t* start) const;

 private:
  DriverApi api_;
  std::map<uint64_t, Range> ranges_;
  bool fails_ = false;
  std::string asked_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_TESTING_FAKE_DRIVER_H_
