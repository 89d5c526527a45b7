#include "client_stub/core/module.h"

#include <algorithm>
#include <memory>

#include "client_stub/core/runtime.h"

namespace warpline::stub {
namespace {

// Of an image in one command.
constexpr size_t kPartBytes = kMaxTail;

}  // namespace

Module::Module(const Context* context, std::string_view image, bool preserved)
    : context_(context), wire_(runtime().NewNumber()) {
  if (preserved) {
    image_ = image;
  } else {
    copy_ = std::string(image);
    image_ = copy_;
  }
}

CUresult Module::Upload() {
  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  if (uploaded_) return CUDA_SUCCESS;
  if (image_.empty()) return CUDA_ERROR_INVALID_IMAGE;
  Session& session = *runtime().session;
  const uint64_t image = runtime().NewNumber();
  for (size_t offset = 0; offset < image_.size(); offset += kPartBytes) {
    const uint64_t seq = session.Send(cmd::ImageData{image, image_.size(), offset},
                                      image_.substr(offset, kPartBytes));
    if (seq == 0) return SentAs(seq);
  }
  const uint64_t seq = session.Send(cmd::ModuleLoad{wire_, image});
  if (seq == 0) return SentAs(seq);
  uploaded_ = true;
  image_ = {};
  copy_ = std::string();
  return CUDA_SUCCESS;
}

CUresult Module::Check() {
  return ToCu(runtime().session->Call(WaitKind::kRoundTrip, cmd::ModuleCheck{wire_}));
}

CUresult Module::FindKernel(const std::string& name, CUkernel* kernel) {
  {
    MutexLock lock(&mu_);
    if (const auto it = kernels_.find(name); it != kernels_.end()) {
      *kernel = it->second->handle;
      return CUDA_SUCCESS;
    }
  }
  WARPLINE_TRY(Upload());
  auto found = std::make_unique<Kernel>();
  found->module = this;
  found->name = name;
  found->wire = runtime().NewNumber();
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().session->Call(WaitKind::kRoundTrip,
                                            cmd::KernelFind{found->wire, wire_}, name, &reply)));
  if (!ParseKernelReply(reply, found.get())) return CUDA_ERROR_UNKNOWN;

  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  // Another thread may have looked for the same one meanwhile.
  const auto [it, inserted] = kernels_.try_emplace(name, nullptr);
  if (inserted) {
    runtime().kernels.Add([&found](KernelRef& ref, uint64_t handle) {
      found->handle = HandleOf<CUkernel>(handle);
      ref.kernel = found.get();
    });
    if (found->handle == nullptr) {
      kernels_.erase(it);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    it->second = std::move(found);
  }
  *kernel = it->second->handle;
  return CUDA_SUCCESS;
}

CUresult Module::FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes) {
  {
    MutexLock lock(&mu_);
    if (const auto it = globals_.find(name); it != globals_.end()) {
      *address = it->second.address;
      *bytes = it->second.bytes;
      return CUDA_SUCCESS;
    }
  }
  WARPLINE_TRY(Upload());
  std::string reply;
  WARPLINE_TRY(
      ToCu(runtime().session->Call(WaitKind::kRoundTrip, cmd::GlobalFind{wire_}, name, &reply)));
  std::string_view rest = reply;
  cmd::GlobalFindReply found;
  if (!TakeStruct(&rest, &found)) return CUDA_ERROR_UNKNOWN;

  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  globals_[name] = {found.address, found.bytes};
  runtime().memory->AddGlobal(this, found.address, found.bytes);
  *address = found.address;
  *bytes = found.bytes;
  return CUDA_SUCCESS;
}

CUmodule Module::ModuleHandle() {
  MutexLock lock(&mu_);
  if (handle_ == nullptr && !unloaded_) {
    handle_ = HandleOf<CUmodule>(
        runtime().modules.Add([this](ModuleRef& ref, uint64_t) { ref.module = this; }));
  }
  return handle_;
}

void Module::Unload() {
  Runtime& r = runtime();
  MutexLock lock(&mu_);
  unloaded_ = true;
  image_ = {};
  copy_ = std::string();
  if (handle_ != nullptr) r.modules.Remove(NumberOf(handle_), [](ModuleRef&) {});
  for (const auto& [name, kernel] : kernels_) {
    r.kernels.Remove(NumberOf(kernel->handle), [](KernelRef&) {});
  }
  r.memory->ForgetGlobalsOf(this);
  if (uploaded_) r.session->Send(cmd::ModuleUnload{wire_});
}

}  // namespace warpline::stub
