// A backend's first device with a context, 2 MiB of memory, a staging buffer and a module: what the
// tests that hold for every backend begin with.
//
//   using CopyTest = DeviceFixture;
//   TEST_P(CopyTest, ...) { context_->Memset(memory_, ...); }
//   INSTANTIATE_TEST_SUITE_P(Backends, CopyTest, testing::ValuesIn(DeviceFixture::Backends()),
//                            [](const auto& info) { return info.param; });
//
// A test is skipped where its backend has no device, as cuda is without a GPU; the cpu backend runs
// everywhere.
#ifndef WARPLINE_SERVER_DEVICE_TESTING_DEVICE_FIXTURE_H_
#define WARPLINE_SERVER_DEVICE_TESTING_DEVICE_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/device.h"

namespace warpline::device {

class DeviceFixture : public ::testing::TestWithParam<std::string> {
 public:
  // The names of all backends.
  static std::vector<std::string> Backends();
  // The text of the module that Find() looks into.
  static std::string_view Ptx();

 protected:
  static constexpr uint64_t kMiB = 1ull << 20;
  static constexpr uint64_t kArenaBytes = 4096 * kMiB;
  static constexpr size_t kStagingBytes = 64 << 10;

  void SetUp() override;
  void TearDown() override;

  CudaResult Sync(StreamId stream);
  CudaResult WaitFor(EventId event);
  std::vector<uint32_t> Read(uint64_t address, size_t count);
  void Write(uint64_t address, const std::vector<uint32_t>& words, StreamId stream);

  // Finds a kernel of the module, which has
  //   scale(u64 out, u64 in, u32 n): out[i] = in[i] * factor + table[i & 3]
  //   spin(u64 flag): spins until *flag is not 0, then stores 1 behind it
  //   store(u64 where): stores 42
  // and the variables `table` (global: 1, 2, 3, 4) and `factor` (constant: 3), both of u32.
  KernelId Find(const char* name);

  template <typename... Args>
  CudaResult Launch(KernelId kernel, const LaunchConfig& config, StreamId stream, Args... args) {
    std::vector<std::byte> params;
    const auto add = [&](auto value) {
      params.resize((params.size() + sizeof(value) - 1) / sizeof(value) * sizeof(value));
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      params.insert(params.end(), bytes, bytes + sizeof(value));
    };
    (add(args), ...);
    return context_->Launch(kernel, config, params, stream);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ChunkSource> chunks_;
  std::unique_ptr<Context> context_;
  uint64_t base_ = 0;    // Of the arena.
  uint64_t memory_ = 0;  // Where the chunk behind `fd_` is mapped.
  UniqueFd fd_;
  void* staging_ = nullptr;
  ModuleId module_{};
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_TESTING_DEVICE_FIXTURE_H_
