#include "client_stub/core/module/module.h"

#include <memory>
#include <utility>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/module/image_upload.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"
#include "client_stub/private_tables/export_tables.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

namespace {

// The outcomes of loading PTX that no device of this kind runs.
bool RefusesPtx(CudaResult result) {
  return result == CudaResult::kInvalidImage || result == CudaResult::kNoBinaryForGpu ||
         result == CudaResult::kInvalidPtx || result == CudaResult::kUnsupportedPtxVersion;
}

}  // namespace

Module::Module(Device* device, const Context* context, Library* library, ModuleImage image,
               std::string_view jit_options)
    : device_(device),
      context_(context),
      library_(library),
      jit_options_(jit_options),
      wire_(runtime().NewNumber(*device)),
      image_(std::move(image)) {}

CUresult Module::Upload() {
  uint64_t wire;
  return Upload(&wire);
}

CUresult Module::Upload(uint64_t* wire) {
  std::map<std::string, uint64_t> lost;
  WARPLINE_TRY(Upload(wire, &lost));
  FindLost(lost);
  return CUDA_SUCCESS;
}

void Module::FindLost(const std::map<std::string, uint64_t>& lost) {
  for (const auto& [name, host] : lost) {
    // Where it does not come, its pages raise SIGSEGV.
    Global variable;
    FindVariable(name, host, &variable);
  }
}

CUresult Module::Upload(uint64_t* wire, std::map<std::string, uint64_t>* lost) {
  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  *wire = wire_;
  if (uploaded_) return CUDA_SUCCESS;
  if (image_.bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  Commands& commands = *runtime().commands;
  const uint64_t image = runtime().NewNumber();
  const bool ask = !server_lacks_ && WorthAsking(*runtime().terms, image_.bytes);
  uint64_t seq = ask ? AskForImage(&commands, image, image_.bytes)
                     : SendImage(*runtime().terms, &commands, image, image_.bytes);
  if (seq == 0) return SentAs(seq);
  seq = jit_options_.empty() ? commands.Send(cmd::ModuleLoad{wire_, image})
                             : commands.Send(cmd::ModuleLoadJit{wire_, image}, jit_options_);
  if (seq == 0) return SentAs(seq);
  uploaded_ = true;
  lost->swap(lost_);
  return CUDA_SUCCESS;
}

template <typename Make>
CUresult Module::Ask(Make make, std::string_view tail, std::string* reply) {
  for (bool asked = true;;) {
    uint64_t wire;
    WARPLINE_TRY(Upload(&wire));
    CudaResult result = runtime().commands->Call(WaitKind::kRoundTrip, make(wire), tail, reply);
    if (result == CudaResult::kOutOfMemory && !runtime().session->terms().TellsRefusals()) {
      runtime().session->memory().NoteRefusedMemory(
          result, "the quota leaves too little for a module's variables or its kernels' stacks");
    }
    if (result == kImageMissing && asked) {
      asked = false;
      SendInstead(wire);
      continue;
    }
    if (result == CudaResult::kNoBinaryForGpu && SendPtxInstead(wire)) {
      asked = true;
      continue;
    }
    // Another thread has sent it anew meanwhile.
    if (result == CudaResult::kInvalidHandle && HasMovedOn(wire)) continue;
    if (RefusesPtx(result) && StandsIn()) {
      if (const LogPermit permit = CallLog().Ask(kPtxLine)) {
        permit.Warning(
            "machine code is not run here, and the PTX that it was compiled from is refused with "
            "CUDA error ",
            static_cast<int>(result));
      }
      result = CudaResult::kNoBinaryForGpu;  // The program's own code gave this.
    }
    TellWatch(result, tail);
    return ToCu(result);
  }
}

bool Module::StandsIn() {
  MutexLock lock(&mu_);
  return stands_in_;
}

bool Module::HasMovedOn(uint64_t wire) {
  MutexLock lock(&mu_);
  return wire_ != wire && !unloaded_;
}

void Module::TellWatch(CudaResult result, std::string_view name) {
  TierWatch* const watch = runtime().tier_watch;
  const bool has_none =
      result == CudaResult::kNoBinaryForGpu || result == CudaResult::kUnsupportedPtxVersion;
  if (result == CudaResult::kSuccess || (watch == nullptr && !has_none)) return;
  const void* image = nullptr;
  {
    MutexLock lock(&mu_);
    image = image_.bytes.data();
  }
  if (watch != nullptr) return watch->OnModule(result, image, name);
  // Some programs ignore the errors of their launches and read wrong results.
  if (const LogPermit permit = CallLog().Ask(kNoCodeLine)) {
    permit.Warning(ModuleAt(image), " has no code that the device runs: CUDA error ",
                   static_cast<int>(result), " for each use of its kernels");
  }
}

void Module::SendInstead(uint64_t wire) {
  MutexLock lock(&mu_);
  // Another thread may have been here, or the module was unloaded.
  if (wire_ != wire || !uploaded_ || unloaded_) return;
  BeginAgain();
  server_lacks_ = true;
}

bool Module::SendPtxInstead(uint64_t wire) {
  MutexLock lock(&mu_);
  if (unloaded_) return false;
  if (wire_ != wire || !uploaded_) return true;  // Another thread has been here.
  std::shared_ptr<const std::string> ptx = PtxBehind(image_.bytes);
  if (ptx == nullptr) return false;
  image_ = {*ptx, ptx};
  stands_in_ = true;
  BeginAgain();
  server_lacks_ = false;
  return true;
}

void Module::BeginAgain() {
  runtime().commands->Send(cmd::ModuleUnload{wire_});
  wire_ = runtime().NewNumber(*device_);
  uploaded_ = false;
}

CUresult Module::Check() {
  const CUresult result = Ask([](uint64_t wire) { return cmd::ModuleCheck{wire}; });
  MutexLock lock(&mu_);
  // A module ends with its context and is never sent again.
  if (context_ != nullptr) image_ = {};
  return result;
}

CUresult Module::WriteLog(JitOptions* options) {
  std::string reply;
  WARPLINE_TRY(Ask([](uint64_t wire) { return cmd::ModuleJitLog{wire}; }, {}, &reply));
  std::string_view rest = reply;
  cmd::ModuleJitLogReply log;
  if (!TakeStruct(&rest, &log) || log.info_bytes > rest.size()) return CUDA_ERROR_UNKNOWN;
  options->WriteLog(log.wall_ms, rest.substr(0, log.info_bytes), rest.substr(log.info_bytes));
  return CUDA_SUCCESS;
}

CUresult Module::KernelNames(std::vector<std::string>* names) {
  while (true) {
    std::string reply;
    const auto first = static_cast<uint32_t>(names->size());
    WARPLINE_TRY(Ask(
        [first](uint64_t wire) {
          return cmd::ModuleKernels{wire, first, 0};
        },
        {}, &reply));
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

CUresult Module::FindKernel(const std::string& name, Kernel** kernel) {
  {
    MutexLock lock(&mu_);
    if (const auto it = kernels_.find(name); it != kernels_.end()) {
      *kernel = it->second.get();
      return CUDA_SUCCESS;
    }
  }
  auto found = std::make_unique<Kernel>();
  found->module = this;
  found->device = device_;
  found->name = name;
  const uint64_t wire = runtime().NewNumber();
  found->wire.store(wire);
  std::string reply;
  WARPLINE_TRY(Ask(
      [wire](uint64_t module) {
        return cmd::KernelFind{wire, module};
      },
      name, &reply));
  if (!ParseKernelReply(reply, found.get())) return CUDA_ERROR_UNKNOWN;

  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  // Another thread may have looked the same kernel up meanwhile.
  const auto [it, inserted] = kernels_.try_emplace(name, nullptr);
  if (inserted) {
    runtime().kernels.Add([&](KernelRef& ref, uint64_t handle) {
      found->handle = HandleOf<CUkernel>(handle);
      ref.kernel = found.get();
      ref.bound = library_ == nullptr;
    });
    if (found->handle == nullptr) {
      kernels_.erase(it);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    it->second = std::move(found);
  }
  *kernel = it->second.get();
  return CUDA_SUCCESS;
}

CUfunction Module::FunctionOf(Kernel* kernel) {
  uint64_t handle = kernel->function.load(std::memory_order_acquire);
  if (handle != 0) return HandleOf<CUfunction>(handle);
  MutexLock lock(&mu_);
  handle = kernel->function.load(std::memory_order_relaxed);
  if (handle == 0 && !unloaded_) {
    handle = runtime().kernels.Add([kernel](KernelRef& ref, uint64_t) {
      ref.kernel = kernel;
      ref.bound = true;
    });
    kernel->function.store(handle, std::memory_order_release);
  }
  return HandleOf<CUfunction>(handle);
}

CUresult Module::AskForVariable(const std::string& name, cmd::VariableFindReply* found) {
  std::string reply;
  const CUresult result = Ask([](uint64_t wire) { return cmd::VariableFind{wire}; }, name, &reply);
  std::string_view rest = reply;
  if (result != CUDA_ERROR_NOT_SUPPORTED) {
    WARPLINE_TRY(result);
    return TakeStruct(&rest, found) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }
  // Older servers have no managed variables.
  WARPLINE_TRY(Ask([](uint64_t wire) { return cmd::GlobalFind{wire}; }, name, &reply));
  rest = reply;
  cmd::GlobalFindReply plain;
  if (!TakeStruct(&rest, &plain)) return CUDA_ERROR_UNKNOWN;
  *found = {plain.address, plain.bytes, 0, 0};
  return CUDA_SUCCESS;
}

CUresult Module::FindVariable(const std::string& name, uint64_t wanted, Global* variable) {
  {
    MutexLock lock(&mu_);
    if (const auto it = globals_.find(name); it != globals_.end()) {
      *variable = it->second;
      return CUDA_SUCCESS;
    }
  }
  cmd::VariableFindReply found;
  WARPLINE_TRY(AskForVariable(name, &found));
  *variable = {found.address, found.bytes, 0};

  MutexLock lock(&mu_);
  if (unloaded_) return CUDA_ERROR_INVALID_HANDLE;
  if (found.block_bytes != 0) {
    if (found.address - found.block >= found.block_bytes) return CUDA_ERROR_UNKNOWN;
    const uint64_t offset = found.address - found.block;
    uint64_t host;
    WARPLINE_TRY(runtime().mirrored->AddVariables(this, found.block, found.block_bytes,
                                                  wanted == 0 ? 0 : wanted - offset, &host));
    variable->host = host + offset;
  }
  globals_[name] = *variable;
  runtime().memory->AddGlobal(device_->number, this, found.address, found.bytes);
  return CUDA_SUCCESS;
}

CUresult Module::FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes) {
  Global variable;
  WARPLINE_TRY(FindVariable(name, 0, &variable));
  *address = variable.address;
  *bytes = variable.bytes;
  return CUDA_SUCCESS;
}

CUresult Module::FindManaged(const std::string& name, uint64_t* address, uint64_t* bytes) {
  Global variable;
  WARPLINE_TRY(FindVariable(name, 0, &variable));
  *address = variable.host;
  *bytes = variable.bytes;
  MutexLock lock(&mu_);
  managed_.insert(name);
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

CUresult Module::Bind(Kernel* kernel, uint64_t* wire) {
  *wire = kernel->wire.load(std::memory_order_acquire);
  if (*wire != 0) return CUDA_SUCCESS;
  Commands& commands = *runtime().commands;
  *wire = runtime().NewNumber();
  WARPLINE_TRY(Ask(
      [number = *wire](uint64_t module) {
        return cmd::KernelFind{number, module};
      },
      kernel->name));
  for (int i = 0; i < Kernel::kAttributes; ++i) {
    if ((kernel->set_attributes.load() >> i & 1) == 0) continue;
    const cmd::KernelSetAttribute set = {*wire, i, kernel->attributes[i].load()};
    WARPLINE_TRY(ToCu(commands.Call(WaitKind::kRoundTrip, set)));
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
  std::vector<Mirror::Extent> managed;
  for (const auto& [name, variable] : globals_) {
    if (variable.host == 0) continue;
    lost_[name] = variable.host;
    if (managed_.count(name) != 0) {
      managed.push_back({variable.host, variable.host + variable.bytes});
    }
  }
  globals_.clear();
  r.memory->ForgetGlobalsOf(this);
  r.mirrored->LoseVariablesOf(this, managed, [this] { Upload(); });
  r.commands->Send(cmd::ModuleUnload{wire_});
  wire_ = r.NewNumber(*device_);
  uploaded_ = false;
  server_lacks_ = false;
}

void Module::Unload() {
  Runtime& r = runtime();
  MutexLock lock(&mu_);
  unloaded_ = true;
  image_ = {};
  if (handle_ != nullptr) r.modules.Remove(NumberOf(handle_), [](ModuleRef&) {});
  for (const auto& [name, kernel] : kernels_) {
    r.kernels.Remove(NumberOf(kernel->handle), [](KernelRef&) {});
    const uint64_t function = kernel->function.load();
    if (function != 0) r.kernels.Remove(function, [](KernelRef&) {});
  }
  r.memory->ForgetGlobalsOf(this);
  r.mirrored->ForgetVariablesOf(this);
  if (uploaded_) r.commands->Send(cmd::ModuleUnload{wire_});
}

}  // namespace warpline::stub
