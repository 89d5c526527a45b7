// The attacker's own session: a context, some memory and a few kernels. The driver is opened at run
// time, as programs do it that come without one.
//
//   auto home = Home::Open();
//   home->Launch("copy", threads, {&from, &to, &words});
//   for (const uint32_t word : home->ReadMemory()) ...
#ifndef WARPLINE_TESTS_ATTACK_TIER_HOME_H_
#define WARPLINE_TESTS_ATTACK_TIER_HOME_H_

// Functions of the driver by their exact symbols; first, because cuda.h then has them.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/surface/surface.h"

#define DRIVER(fn) SURFACE_CALL(fn)

namespace warpline::attack {

// Thread-compatible. A process has one, which ends with it.
class Home {
 public:
  static constexpr uint32_t kWords = 16384;
  static constexpr size_t kBytes = kWords * sizeof(uint32_t);

  static absl::StatusOr<std::unique_ptr<Home>> Open();

  // kWords of device memory, zero at first.
  CUdeviceptr memory() const { return memory_; }

  // The kernels, of one block each:
  //   copy(from, to, words)           copies words
  //   fill(to, words, value)          sets words
  //   follow(pointers, to, count)     reads a word at each of `count` pointers
  //   trample(pointers, count, value) writes a word there
  CUfunction Kernel(const char* name) const;
  CUresult Launch(const char* kernel, std::initializer_list<void*> parameters,
                  CUstream stream = nullptr) const;
  // Waits for all work. CUDA_ERROR_TIMEOUT when it is not complete by then.
  CUresult Wait(absl::Duration patience = absl::Seconds(30)) const;

  CUresult Write(const std::vector<uint32_t>& words) const;
  // All of its memory. After an error that sticks, nothing.
  std::vector<uint32_t> ReadMemory() const;

 private:
  Home() = default;

  CUdeviceptr memory_ = 0;
  CUmodule module_ = nullptr;
};

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_HOME_H_
