// Runs small PTX kernels on a CPU device of its own: one arena with a few megabytes mapped.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_FIXTURE_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_FIXTURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/device.h"

namespace warpline::cpu {

// Puts a kernel's parameters and body into a module with registers of every kind: %p, %h, %r, %l,
// %f, %d (predicate, b16, b32, b64, f32, f64), 32 of each. Parameters are named p0, p1, ..., and
// %l1 already holds p0 as a global address.
std::string KernelText(std::string_view body, std::string_view declarations = "");

class KernelFixture : public ::testing::Test {
 protected:
  static constexpr uint64_t kMappedBytes = 4 << 20;

  void SetUp() override;

  // Whether kernels run guarded.
  static bool is_guarded();

  // Loads `text` and finds `name` in it.
  device::KernelId Load(std::string_view text, const std::string& name = "k");

  // Launches on the legacy stream. Arguments are laid out by their C++ types.
  template <typename... Args>
  CudaResult Launch(device::KernelId kernel, std::array<uint32_t, 3> grid,
                    std::array<uint32_t, 3> block, uint32_t shared, Args... args) {
    return Launch(kernel, {grid, block, shared}, Pack(args...));
  }
  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    const std::vector<std::byte>& params,
                    device::StreamId stream = device::kLegacyStream);

  template <typename... Args>
  static std::vector<std::byte> Pack(Args... args) {
    std::vector<std::byte> params;
    (Append(args, &params), ...);
    return params;
  }

  // Waits for the legacy stream.
  CudaResult Sync() { return SyncStream(device::kLegacyStream); }
  CudaResult SyncStream(device::StreamId stream);

  // Runs one block of `threads` with the address of memory as its parameter, and returns the
  // memory's first words.
  std::vector<uint32_t> RunWords(std::string_view text, uint32_t threads, size_t words);
  // Runs a kernel that must fail in the same way.
  CudaResult RunToEnd(std::string_view text, uint32_t threads);

  template <typename T>
  std::vector<T> Read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    ReadBytes(address, values.data(), count * sizeof(T));
    return values;
  }
  template <typename T>
  void Write(uint64_t address, const std::vector<T>& values) {
    ASSERT_EQ(context_->CopyToDevice(address, values.data(), values.size() * sizeof(T),
                                     device::kLegacyStream),
              CudaResult::kSuccess);
  }

  std::unique_ptr<device::Backend> backend_;
  std::unique_ptr<device::ChunkSource> chunks_;
  std::unique_ptr<device::Context> context_;
  UniqueFd chunk_;
  uint64_t base_ = 0;    // Start of the arena
  uint64_t memory_ = 0;  // Start of the mapped memory, of kMappedBytes
  device::ModuleId module_{};

 private:
  template <typename T>
  static void Append(T value, std::vector<std::byte>* params) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = (params->size() + alignof(T) - 1) / alignof(T) * alignof(T);
    params->resize(at + sizeof(value));
    std::memcpy(params->data() + at, &value, sizeof(value));
  }
  void ReadBytes(uint64_t address, void* to, size_t bytes);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_FIXTURE_H_
