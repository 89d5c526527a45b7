#include "server/device/cpu/testing/kernel_fixture.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/cpu_backend.h"
#include "server/device/cpu/testing/kernel_loader.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{4} << 30;
// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

}  // namespace

std::string KernelText(std::string_view body, std::string_view declarations) {
  return absl::StrCat(
      ".version 8.0\n.target sm_75\n.address_size 64\n", std::string(declarations),
      "\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)\n{\n"
      ".reg .pred %p<32>;\n.reg .b16 %h<32>;\n.reg .b32 %r<32>;\n.reg .b64 %l<32>;\n"
      ".reg .f32 %f<32>;\n.reg .f64 %d<32>;\n"
      "ld.param.u64 %l1, [p0];\ncvta.to.global.u64 %l1, %l1;\n",
      std::string(body), "\nret;\n}\n");
}

void KernelFixture::SetUp() {
  backend_ = *device::NewCpuBackend();
  chunks_ = *backend_->OpenChunkSource(0);
  context_ = *backend_->OpenContext(0);
  chunk_ = *chunks_->CreateChunk(kMappedBytes);
  for (const uint64_t base : kBases) {
    if (context_->ReserveArena(base, kArenaBytes) != CudaResult::kSuccess) continue;
    base_ = base;
    break;
  }
  ASSERT_NE(base_, 0u);
  memory_ = base_ + (64 << 20);
  ASSERT_EQ(context_->MapChunk(memory_, kMappedBytes, chunk_.get()), CudaResult::kSuccess);
}

CudaResult KernelFixture::Launch(device::KernelId kernel, const device::LaunchConfig& config,
                                 const std::vector<std::byte>& params, device::StreamId stream) {
  std::vector<std::byte> all = params;
  AddParameters(base_, config, &all);
  return context_->Launch(kernel, config, all, stream);
}

bool KernelFixture::is_guarded() { return LoadsGuarded(); }

device::KernelId KernelFixture::Load(std::string_view text, const std::string& name) {
  device::KernelId kernel{};
  EXPECT_EQ(LoadText(context_.get(), text, base_, memory_ + kMappedBytes / 2, &module_),
            CudaResult::kSuccess);
  EXPECT_EQ(context_->FindKernel(module_, name, &kernel), CudaResult::kSuccess);
  return kernel;
}

CudaResult KernelFixture::SyncStream(device::StreamId stream) {
  device::EventId event{};
  CudaResult result = context_->CreateEvent(2, &event);
  if (result == CudaResult::kSuccess) result = context_->RecordEvent(event, stream);
  if (result != CudaResult::kSuccess) return result;
  while ((result = context_->QueryEvent(event)) == CudaResult::kNotReady) {
    std::this_thread::yield();
  }
  context_->DestroyEvent(event);
  return result;
}

std::vector<uint32_t> KernelFixture::RunWords(std::string_view text, uint32_t threads,
                                              size_t words) {
  EXPECT_EQ(RunToEnd(text, threads), CudaResult::kSuccess);
  return Read<uint32_t>(memory_, words);
}

CudaResult KernelFixture::RunToEnd(std::string_view text, uint32_t threads) {
  const device::KernelId kernel = Load(text);
  const CudaResult launched =
      Launch(kernel, {1, 1, 1}, {threads, 1, 1}, 0, memory_, memory_ + 4096, uint32_t{7});
  return launched == CudaResult::kSuccess ? Sync() : launched;
}

void KernelFixture::ReadBytes(uint64_t address, void* to, size_t bytes) {
  void* staging = nullptr;
  ASSERT_EQ(context_->AllocStaging(bytes, &staging), CudaResult::kSuccess);
  ASSERT_EQ(context_->CopyFromDevice(staging, address, bytes, device::kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  std::memcpy(to, staging, bytes);
  context_->FreeStaging(staging);
}

}  // namespace warpline::cpu
