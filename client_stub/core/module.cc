#include "client_stub/core/module.h"

#include <algorithm>
#include <memory>

#include "client_stub/core/runtime.h"

namespace warpline::stub {
namespace {

// Of an image in one command.
constexpr size_t kPartBytes = kMaxTail;

}  // namespace

Module::Module(const Context* context, std::string_view image, bool preserved,
               std::string_view jit_options)
    : context_(context), jit_options_(jit_options), wire_(runtime().NewNumber()) {
  if (preserved) {
    image_ = image;
  } else {
    copy_ = std::string(image);
    image_ = copy_;
  }
}

CUresult Module::Upload() {
  uint64_t wire;
  return Upload(&wire);
}

CUresult Module::Upload(uint64_t* wire) {
  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  *wire = wire_;
  if (uploaded_) return CUDA_SUCCESS;
  if (image_.empty()) return CUDA_ERROR_INVALID_IMAGE;
  Session& session = *runtime().session;
  const uint64_t image = runtime().NewNumber();
  for (size_t offset = 0; offset < image_.size(); offset += kPartBytes) {
    const uint64_t seq = session.Send(cmd::ImageData{image, image_.size(), offset},
                                      image_.substr(offset, kPartBytes));
    if (seq == 0) return SentAs(seq);
  }
  const uint64_t seq = jit_options_.empty()
                           ? session.Send(cmd::ModuleLoad{wire_, image})
                           : session.Send(cmd::ModuleLoadJit{wire_, image}, jit_options_);
  if (seq == 0) return SentAs(seq);
  uploaded_ = true;
  // A module ends with its context and is never sent again.
  if (context_ != nullptr) {
    image_ = {};
    copy_ = std::string();
  }
  return CUDA_SUCCESS;
}

CUresult Module::Check() {
  uint64_t wire;
  WARPLINE_TRY(Upload(&wire));
  return ToCu(runtime().session->Call(WaitKind::kRoundTrip, cmd::ModuleCheck{wire}));
}

CUresult Module::WriteLog(JitOptions* options) {
  uint64_t wire;
  WARPLINE_TRY(Upload(&wire));
  std::string reply;
  WARPLINE_TRY(
      ToCu(runtime().session->Call(WaitKind::kRoundTrip, cmd::ModuleJitLog{wire}, {}, &reply)));
  std::string_view rest = reply;
  cmd::ModuleJitLogReply log;
  if (!TakeStruct(&rest, &log) || log.info_bytes > rest.size()) return CUDA_ERROR_UNKNOWN;
  options->WriteLog(log.wall_ms, rest.substr(0, log.info_bytes), rest.substr(log.info_bytes));
  return CUDA_SUCCESS;
}

CUresult Module::KernelNames(std::vector<std::string>* names) {
  uint64_t wire;
  WARPLINE_TRY(Upload(&wire));
  while (true) {
    std::string reply;
    const auto first = static_cast<uint32_t>(names->size());
    WARPLINE_TRY(ToCu(runtime().session->Call(WaitKind::kRoundTrip,
                                              cmd::ModuleKernels{wire, first, 0}, {}, &reply)));
    std::string_view rest = reply;
    cmd::ModuleKernelsReply part;
    if (!TakeStruct(&rest, &part)) return CUDA_ERROR_UNKNOWN;
    for (uint32_t i = 0; i < part.count; ++i) {
      const size_t end = rest.find('\0');
      if (end == std::string_view::npos) return CUDA_ERROR_UNKNOWN;
      names->emplace_back(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (names->size() >= part.total) return CUDA_SUCCESS;
    if (part.count == 0) return CUDA_ERROR_UNKNOWN;
  }
}

CUresult Module::FindKernel(const std::string& name, CUkernel* kernel) {
  {
    MutexLock lock(&mu_);
    if (const auto it = kernels_.find(name); it != kernels_.end()) {
      *kernel = it->second->handle;
      return CUDA_SUCCESS;
    }
  }
  uint64_t module;
  WARPLINE_TRY(Upload(&module));
  auto found = std::make_unique<Kernel>();
  found->module = this;
  found->name = name;
  const uint64_t wire = runtime().NewNumber();
  found->wire.store(wire);
  std::string reply;
  WARPLINE_TRY(ToCu(
      runtime().session->Call(WaitKind::kRoundTrip, cmd::KernelFind{wire, module}, name, &reply)));
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

CUresult Module::FindVariable(const std::string& name, Global* variable) {
  {
    MutexLock lock(&mu_);
    if (const auto it = globals_.find(name); it != globals_.end()) {
      *variable = it->second;
      return CUDA_SUCCESS;
    }
  }
  uint64_t wire;
  WARPLINE_TRY(Upload(&wire));
  std::string reply;
  WARPLINE_TRY(
      ToCu(runtime().session->Call(WaitKind::kRoundTrip, cmd::GlobalFind{wire}, name, &reply)));
  std::string_view rest = reply;
  cmd::GlobalFindReply found;
  if (!TakeStruct(&rest, &found)) return CUDA_ERROR_UNKNOWN;
  *variable = {found.address, found.bytes, 0};

  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  if (found.block_bytes != 0) {
    if (found.address - found.block >= found.block_bytes) return CUDA_ERROR_UNKNOWN;
    uint64_t host;
    WARPLINE_TRY(runtime().mirrored->AddVariables(this, found.block, found.block_bytes, &host));
    variable->host = host + (found.address - found.block);
  }
  globals_[name] = *variable;
  runtime().memory->AddGlobal(this, found.address, found.bytes);
  return CUDA_SUCCESS;
}

CUresult Module::FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes) {
  Global variable;
  WARPLINE_TRY(FindVariable(name, &variable));
  *address = variable.address;
  *bytes = variable.bytes;
  return CUDA_SUCCESS;
}

CUresult Module::FindManaged(const std::string& name, uint64_t* address, uint64_t* bytes) {
  Global variable;
  WARPLINE_TRY(FindVariable(name, &variable));
  *address = variable.host;
  *bytes = variable.bytes;
  return variable.host == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult Module::GetGlobal(const char* name, CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t found_address, found_bytes;
  WARPLINE_TRY(FindGlobal(name, &found_address, &found_bytes));
  if (address != nullptr) *address = found_address;
  if (bytes != nullptr) *bytes = found_bytes;
  return CUDA_SUCCESS;
}

CUresult Module::FirstKernels(size_t count, std::vector<CUkernel>* kernels) {
  std::vector<std::string> names;
  WARPLINE_TRY(KernelNames(&names));
  for (size_t i = 0; i < std::min(count, names.size()); ++i) {
    WARPLINE_TRY(FindKernel(names[i], &kernels->emplace_back()));
  }
  return CUDA_SUCCESS;
}

CUresult Module::Bind(Kernel* kernel, uint64_t* wire) {
  *wire = kernel->wire.load(std::memory_order_acquire);
  if (*wire != 0) return CUDA_SUCCESS;
  Session& session = *runtime().session;
  uint64_t module;
  WARPLINE_TRY(Upload(&module));
  *wire = runtime().NewNumber();
  WARPLINE_TRY(
      ToCu(session.Call(WaitKind::kRoundTrip, cmd::KernelFind{*wire, module}, kernel->name)));
  for (int i = 0; i < Kernel::kAttributes; ++i) {
    if ((kernel->set_attributes.load() >> i & 1) == 0) continue;
    const cmd::KernelSetAttribute set = {*wire, i, kernel->attributes[i].load()};
    WARPLINE_TRY(ToCu(session.Call(WaitKind::kRoundTrip, set)));
  }
  kernel->wire.store(*wire, std::memory_order_release);
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

void Module::Reset() {
  Runtime& r = runtime();
  MutexLock lock(&mu_);
  if (!uploaded_ || unloaded_) return;
  for (const auto& [name, kernel] : kernels_) kernel->wire.store(0, std::memory_order_release);
  if (handle_ != nullptr) r.modules.Remove(NumberOf(handle_), [](ModuleRef&) {});
  handle_ = nullptr;
  globals_.clear();
  r.memory->ForgetGlobalsOf(this);
  r.mirrored->ForgetVariablesOf(this);
  r.session->Send(cmd::ModuleUnload{wire_});
  wire_ = r.NewNumber();
  uploaded_ = false;
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
  r.mirrored->ForgetVariablesOf(this);
  if (uploaded_) r.session->Send(cmd::ModuleUnload{wire_});
}

}  // namespace warpline::stub
