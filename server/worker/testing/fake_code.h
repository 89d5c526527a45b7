// The modules, linked code and kernels of a FakeContext.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_CODE_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_CODE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/launches.h"
#include "server/device/facets/links.h"
#include "server/device/facets/modules.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// An image that starts with "bad" does not load. Thread-safe.
class FakeModules : public virtual device::Modules {
 public:
  explicit FakeModules(FakeShared* shared) : log_(shared->log) {}

  CudaResult LoadModule(std::string_view image, device::ModuleId* module) override {
    if (image.substr(0, 3) == "bad") return CudaResult::kInvalidImage;
    *module = device::ModuleId{5};
    return CudaResult::kSuccess;
  }
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const device::JitOption> options,
                           device::JitLog* log, device::ModuleId* module) override {
    log->info = absl::StrCat(options.size(), " options");
    if (image == "bad") log->errors = "no such instruction";
    return LoadModule(image, module);
  }
  CudaResult CheckModule(device::ModuleId) override { return CudaResult::kSuccess; }
  CudaResult UnloadModule(device::ModuleId) override { return log_.Add("unload", {}, ""); }
  CudaResult Kernels(device::ModuleId, std::vector<std::string>* names) override {
    *names = {"one", "two"};
    return CudaResult::kSuccess;
  }
  CudaResult FindKernel(device::ModuleId, const std::string& name,
                        device::KernelId* kernel) override {
    if (name == "missing") return CudaResult::kNotFound;
    *kernel = device::KernelId{77};
    return CudaResult::kSuccess;
  }
  CudaResult FindGlobal(device::ModuleId, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override {
    *address = 4096;
    *bytes = 16;
    return name == "missing" ? CudaResult::kNotFound : CudaResult::kSuccess;
  }
  CudaResult WriteVariable(device::ModuleId, const std::string&, std::string_view,
                           device::StreamId) override {
    return CudaResult::kSuccess;
  }
  CudaResult ManagedBlock(uint64_t, uint64_t* base, uint64_t* bytes) override {
    *base = *bytes = 0;
    return CudaResult::kSuccess;
  }
  CudaResult TakeBlock(uint64_t*) override {
    return device::Lacks(device::Capability::kVariableBlocks);
  }
  void FreeBlock(uint64_t) override {}

 private:
  FakeLog& log_;
};

// Thread-safe.
class FakeLinks : public virtual device::Links {
 public:
  explicit FakeLinks(FakeShared* shared) : log_(shared->log) {}

  CudaResult CreateLink(absl::Span<const device::JitOption> options,
                        device::LinkId* link) override {
    *link = device::LinkId{4};
    return log_.Add("link", {}, absl::StrCat(options.size()));
  }
  CudaResult AddToLink(device::LinkId, uint32_t type, std::string_view data,
                       const std::string& name, absl::Span<const device::JitOption>,
                       device::JitLog* log) override {
    log->info = absl::StrCat(name, " added;");
    if (data == "bad") log->errors = "no such instruction";
    log_.Add("input", {}, absl::StrCat(type, "=", std::string(data)));
    return data == "bad" ? CudaResult::kInvalidPtx : CudaResult::kSuccess;
  }
  CudaResult CompleteLink(device::LinkId, std::string* code, device::JitLog*) override {
    code->assign(300u << 10, 'c');
    return CudaResult::kSuccess;
  }
  void DestroyLink(device::LinkId) override { log_.Add("unlink", {}, ""); }

 private:
  FakeLog& log_;
};

// Thread-safe.
class FakeLaunches : public virtual device::Launches {
 public:
  static constexpr device::Capabilities kGives = device::Capability::kClusters;

  explicit FakeLaunches(FakeShared* shared) : log_(shared->log) {}

  // The attributes that were set on any kernel, by number. attributes_at_launches() has them as
  // they were at each launch.
  using KernelAttributes = std::map<int, int>;
  KernelAttributes kernel_attributes() {
    MutexLock lock(&mu_);
    return kernel_attributes_;
  }
  std::vector<KernelAttributes> attributes_at_launches() {
    MutexLock lock(&mu_);
    return attributes_at_launches_;
  }
  int kernel_attributes_set() {
    MutexLock lock(&mu_);
    return kernel_attributes_set_;
  }

  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    absl::Span<const std::byte>, device::StreamId stream) override {
    for (const device::LaunchAttribute& attribute : config.attributes) {
      log_.Add("attribute", stream,
               absl::StrCat(attribute.id, "=", static_cast<int>(attribute.value[0])));
    }
    if (config.cooperative) log_.Add("cooperative", stream, "");
    {
      MutexLock lock(&mu_);
      attributes_at_launches_.push_back(kernel_attributes_);
    }
    return log_.Add("launch", stream,
                    absl::StrCat(static_cast<uint64_t>(kernel), "x", config.grid[0]));
  }
  CudaResult Params(device::KernelId, std::vector<device::ParamLayout>* params) override {
    *params = {{0, 8}, {8, 4}};
    return CudaResult::kSuccess;
  }
  CudaResult GetKernelAttribute(device::KernelId, int attribute, int* value) override {
    *value = attribute * 10;
    return CudaResult::kSuccess;
  }
  CudaResult SetKernelAttribute(device::KernelId, int attribute, int value) override {
    if (value < 0) return CudaResult::kInvalidValue;
    MutexLock lock(&mu_);
    kernel_attributes_[attribute] = value;
    ++kernel_attributes_set_;
    return CudaResult::kSuccess;
  }
  CudaResult MaxActiveBlocks(device::KernelId, int, size_t, uint32_t, int* blocks) override {
    *blocks = 3;
    return CudaResult::kSuccess;
  }
  CudaResult MaxActiveClusters(device::KernelId, const device::LaunchConfig& config,
                               int* clusters) override {
    *clusters = static_cast<int>(config.attributes.size());
    return CudaResult::kSuccess;
  }
  CudaResult MaxClusterSize(device::KernelId, const device::LaunchConfig&, int*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult GetLimit(int, uint64_t* value) override {
    MutexLock lock(&mu_);
    *value = limit_;
    return CudaResult::kSuccess;
  }
  CudaResult SetLimit(int, uint64_t value) override {
    MutexLock lock(&mu_);
    limit_ = value;
    return CudaResult::kSuccess;
  }
  CudaResult FlushOutput() override { return log_.Add("flush", {}, ""); }

 private:
  FakeLog& log_;
  Mutex mu_;
  KernelAttributes kernel_attributes_ ABSL_GUARDED_BY(mu_);
  std::vector<KernelAttributes> attributes_at_launches_ ABSL_GUARDED_BY(mu_);
  int kernel_attributes_set_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t limit_ ABSL_GUARDED_BY(mu_) = 1024;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_CODE_H_
