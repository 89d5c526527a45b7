// The memory of a FakeContext, and its copies.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_MEMORY_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/copies.h"
#include "server/device/facets/memory.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// Maps nothing, but remembers what is mapped. Thread-safe.
class FakeMemory : public virtual device::Memory {
 public:
  explicit FakeMemory(FakeShared* /*shared*/) {}

  // The mapped chunks by address, with size and access.
  using Chunks = std::map<uint64_t, std::pair<uint64_t, uint32_t>>;
  Chunks chunks() {
    MutexLock lock(&mu_);
    return chunks_;
  }
  int staging_made() {
    MutexLock lock(&mu_);
    return staging_made_;
  }

  // Where FindVariables() finds memory of modules.
  static constexpr uint64_t kVariables = 0x520000200000;
  static constexpr uint64_t kVariableBytes = 2 << 20;

  uint32_t peers() const override { return 1; }
  CudaResult ReserveArena(uint64_t, uint64_t) override { return CudaResult::kSuccess; }
  CudaResult MapSink(uint64_t, uint64_t) override { return CudaResult::kSuccess; }
  CudaResult MapOwn(uint64_t, uint64_t) override { return CudaResult::kSuccess; }
  CudaResult Seal() override { return CudaResult::kSuccess; }
  CudaResult Unseal() override { return CudaResult::kSuccess; }
  uint64_t own_bytes() const override { return 0; }
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int) override {
    MutexLock lock(&mu_);
    chunks_[va] = {bytes, 3};
    return CudaResult::kSuccess;
  }
  CudaResult UnmapChunk(uint64_t va, uint64_t) override {
    MutexLock lock(&mu_);
    chunks_.erase(va);
    return CudaResult::kSuccess;
  }
  CudaResult SetChunkAccess(uint64_t va, uint64_t, device::MemoryAccess access) override {
    MutexLock lock(&mu_);
    chunks_[va].second = static_cast<uint32_t>(access);
    return CudaResult::kSuccess;
  }
  CudaResult MapHost(uint64_t, uint64_t, int) override { return CudaResult::kNotSupported; }
  CudaResult ShowHost(uint64_t, uint64_t, void*) override { return CudaResult::kNotSupported; }
  CudaResult UnmapHost(uint64_t, uint64_t) override { return CudaResult::kInvalidValue; }
  void LimitVariables() override {}
  void AddVariable(uint64_t, uint64_t, uint64_t) override {}
  CudaResult FindVariables(uint64_t address, uint64_t* base, uint64_t* bytes,
                           uint32_t* owner) override {
    if (address - kVariables >= kVariableBytes) return CudaResult::kNotFound;
    *base = kVariables;
    *bytes = kVariableBytes;
    *owner = 0;
    return CudaResult::kSuccess;
  }
  void RemoveVariable(uint64_t) override {}
  CudaResult AllocStaging(size_t bytes, void** host) override {
    *host = ::operator new(bytes);
    MutexLock lock(&mu_);
    ++staging_made_;
    return CudaResult::kSuccess;
  }
  void FreeStaging(void* host) override { ::operator delete(host); }

 private:
  Mutex mu_;
  Chunks chunks_ ABSL_GUARDED_BY(mu_);
  int staging_made_ ABSL_GUARDED_BY(mu_) = 0;
};

// Logs copies into the device, and makes up the content of copies out of it. Thread-safe.
class FakeCopies : public virtual device::Copies {
 public:
  explicit FakeCopies(FakeShared* shared) : log_(shared->log) {}

  // Copies out of memory at or above `address` are invalid from now on.
  void set_end_of_memory(uint64_t address) {
    MutexLock lock(&mu_);
    end_of_memory_ = address;
  }

  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes,
                          device::StreamId stream) override {
    return log_.Add("in", stream,
                    absl::StrCat(dst, "=", std::string(static_cast<const char*>(src), bytes)));
  }
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, device::StreamId) override {
    {
      MutexLock lock(&mu_);
      if (src == 0 || src >= end_of_memory_) return CudaResult::kInvalidValue;
    }
    std::memset(dst, static_cast<int>(src & 0xff), bytes);
    return CudaResult::kSuccess;
  }
  CudaResult CopyOnDevice(uint64_t, uint64_t, size_t, device::StreamId stream) override {
    return log_.Add("copy", stream, "");
  }
  CudaResult Memset(uint64_t, uint32_t value, int, size_t, device::StreamId stream) override {
    return log_.Add("set", stream, absl::StrCat(value));
  }
  CudaResult MemsetRows(uint64_t, uint64_t, uint32_t value, int, size_t, size_t rows,
                        device::StreamId stream) override {
    return log_.Add("rows", stream, absl::StrCat(value, "x", rows));
  }
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             device::StreamId stream) override {
    return log_.Add(
        "box-in", stream,
        absl::StrCat(dst.address, "=", std::string(static_cast<const char*>(src), extent.bytes())));
  }
  // Each byte of the copy is its address in the box.
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               device::StreamId) override {
    ForEachRow(src, extent, [&](uint64_t address, uint64_t offset, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i) {
        static_cast<char*>(dst)[offset + i] = static_cast<char>(address + i);
      }
    });
    return CudaResult::kSuccess;
  }
  CudaResult CopyBoxOnDevice(const BoxPlace&, const BoxPlace&, const BoxExtent& extent,
                             device::StreamId stream) override {
    return log_.Add("box", stream, absl::StrCat(extent.bytes()));
  }
  CudaResult MemOps(absl::Span<const device::MemOp> operations, device::StreamId stream) override {
    return log_.Add("words", stream, absl::StrCat(operations.size()));
  }

 private:
  FakeLog& log_;
  Mutex mu_;
  uint64_t end_of_memory_ ABSL_GUARDED_BY(mu_) = ~uint64_t{0};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_MEMORY_H_
