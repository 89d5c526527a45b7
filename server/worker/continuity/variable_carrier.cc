#include "server/worker/continuity/variable_carrier.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::worker {
namespace {

absl::Status TooMuch() {
  return absl::ResourceExhaustedError(absl::StrCat("its module variables take more than ",
                                                   kVariableFileBytes >> 20, " MiB together"));
}

uint64_t Aligned(uint64_t at) { return (at + 7) / 8 * 8; }

// `bytes` are few, and the file's memory exists once it has been written.
bool WriteAt(int fd, uint64_t at, const void* data, size_t bytes) {
  return pwrite(fd, data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

bool ReadAt(int fd, uint64_t at, void* data, size_t bytes) {
  return pread(fd, data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

}  // namespace

void VariableCarrier::OnLoaded(uint64_t module, device::ModuleId id, ModuleVariables variables) {
  Loaded loaded;
  loaded.id = id;
  loaded.complete = variables.complete;
  for (std::string& name : variables.names) loaded.names.insert(std::move(name));
  MutexLock lock(&mu_);
  modules_[module] = std::move(loaded);
}

void VariableCarrier::OnUnloading(uint64_t module) {
  MutexLock lock(&mu_);
  modules_.erase(module);
}

void VariableCarrier::OnFound(uint64_t module, std::string_view name) {
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return;
  Loaded& loaded = found->second;
  // Names that the device finds are real and few; this only bounds how many are kept.
  if (loaded.names.size() >= 2 * kMaxVariableNames || name.size() > kMaxVariableName) {
    loaded.complete = false;
  } else {
    loaded.names.emplace(name);
  }
}

// Copies the modules, so that no lock is held during calls to the device.
VariableCarrier::Modules VariableCarrier::Known() {
  MutexLock lock(&mu_);
  return modules_;
}

absl::Status VariableCarrier::Save(int fd, const Saved& saved) {
  const Modules modules = Known();
  FileCopies copies(context_);
  VariableFileHead head;
  uint64_t at = sizeof(head);
  for (const auto& [handle, module] : modules) {
    if (!module.complete) {
      return absl::FailedPreconditionError(
          "a module's variables cannot all be told from its image");
    }
    for (const std::string& name : module.names) {
      SavedVariable variable;
      variable.module = handle;
      const absl::Status status = SaveOne(module, name, &variable, fd, &copies, &at);
      if (!status.ok()) return status;
      saved(handle, name, variable.address, variable.bytes);
      ++head.count;
    }
  }
  return WriteAt(fd, 0, &head, sizeof(head)) ? absl::OkStatus() : TooMuch();
}

absl::Status VariableCarrier::SaveOne(const Loaded& module, const std::string& name,
                                      SavedVariable* saved, int fd, FileCopies* copies,
                                      uint64_t* at) {
  CudaResult result = code_->FindGlobal(module.id, name, &saved->address, &saved->bytes);
  if (result != CudaResult::kSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("a module variable cannot be found: ", CudaResultName(result)));
  }
  saved->name_bytes = name.size();
  const uint64_t contents = *at + sizeof(*saved) + name.size();
  if (contents > kVariableFileBytes || saved->bytes > kVariableFileBytes - contents) {
    return TooMuch();
  }
  if (!WriteAt(fd, *at, saved, sizeof(*saved)) ||
      !WriteAt(fd, *at + sizeof(*saved), name.data(), name.size())) {
    return absl::ResourceExhaustedError("no host memory to save module variables in");
  }
  result = copies->ToFile(saved->address, saved->bytes, fd, contents);
  if (result != CudaResult::kSuccess) {
    return absl::InternalError(
        absl::StrCat("a module variable cannot be read: ", CudaResultName(result)));
  }
  *at = Aligned(contents + saved->bytes);
  return absl::OkStatus();
}

absl::Status VariableCarrier::Restore(int fd) {
  const Modules modules = Known();
  FileCopies copies(context_);
  VariableFileHead head;
  if (!ReadAt(fd, 0, &head, sizeof(head)) || head.magic != kVariableFileMagic) {
    return absl::InvalidArgumentError("the descriptor is not that of saved variables");
  }
  uint64_t at = sizeof(head);
  // Each variable takes a part of the file, which bounds their number.
  for (uint64_t i = 0; i < head.count; ++i) {
    const absl::Status status = RestoreOne(modules, fd, &copies, &at);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status VariableCarrier::RestoreOne(const Modules& modules, int fd, FileCopies* copies,
                                         uint64_t* at) {
  SavedVariable saved;
  if (!ReadAt(fd, *at, &saved, sizeof(saved)) || saved.name_bytes > kMaxVariableName ||
      saved.bytes > kVariableFileBytes) {
    return absl::InvalidArgumentError("saved variables that are none");
  }
  std::string name(saved.name_bytes, '\0');
  if (!ReadAt(fd, *at + sizeof(saved), name.data(), name.size())) {
    return absl::InvalidArgumentError("a saved variable without a name");
  }
  const auto module = modules.find(saved.module);
  uint64_t address = 0;
  uint64_t bytes = 0;
  if (module == modules.end() ||
      code_->FindGlobal(module->second.id, name, &address, &bytes) != CudaResult::kSuccess ||
      address != saved.address || bytes != saved.bytes) {
    return absl::AbortedError("a module variable came to lie elsewhere");
  }
  const uint64_t contents = *at + sizeof(saved) + name.size();
  const CudaResult result = copies->FromFile(fd, contents, address, bytes);
  if (result != CudaResult::kSuccess) {
    return absl::AbortedError(
        absl::StrCat("a module variable cannot be written: ", CudaResultName(result)));
  }
  *at = Aligned(contents + bytes);
  return absl::OkStatus();
}

}  // namespace warpline::worker
