#include "server/compiler/jit_link.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpline::compiler {
namespace {

// The newest first: it takes the PTX of older toolkits.
constexpr const char* kNames[] = {
    "libnvJitLink.so.13",
    "libnvJitLink.so.12",
    "/usr/local/cuda/lib64/libnvJitLink.so.13",
    "/usr/local/cuda/lib64/libnvJitLink.so.12",
};

constexpr int kInputPtx = 2;  // NVJITLINK_INPUT_PTX

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// What the text is for may be more than the capability says: "sm_90a" has what only that very
// device has.
std::string TargetFor(std::string_view ptx, int sm) {
  std::string target = absl::StrCat("sm_", sm);
  const size_t directive = ptx.find("\n.target ");
  if (directive == std::string_view::npos) return target;
  const std::string_view named = ptx.substr(directive + 9, target.size() + 1);
  if (named.size() != target.size() + 1 || named.substr(0, target.size()) != target) return target;
  const char suffix = named.back();
  if (suffix == 'a' || suffix == 'f') target += suffix;
  return target;
}

}  // namespace

void* JitLink::Open(const std::string& name, Functions* functions, std::string* tried) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    absl::StrAppend(tried, tried->empty() ? "" : "; ", dlerror());
    return nullptr;
  }
  if (Find(library, "nvJitLinkCreate", &functions->create) &&
      Find(library, "nvJitLinkDestroy", &functions->destroy) &&
      Find(library, "nvJitLinkAddData", &functions->add) &&
      Find(library, "nvJitLinkComplete", &functions->complete) &&
      Find(library, "nvJitLinkGetLinkedCubinSize", &functions->cubin_size) &&
      Find(library, "nvJitLinkGetLinkedCubin", &functions->cubin) &&
      Find(library, "nvJitLinkGetErrorLogSize", &functions->log_size) &&
      Find(library, "nvJitLinkGetErrorLog", &functions->log) &&
      Find(library, "nvJitLinkVersion", &functions->version)) {
    return library;
  }
  absl::StrAppend(tried, tried->empty() ? "" : "; ", name, " lacks functions");
  return nullptr;
}

absl::StatusOr<JitLink> JitLink::Load(const std::string& path) {
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  if (!path.empty()) names = {path};
  JitLink jit;
  std::string tried;
  for (const std::string& name : names) {
    if (Open(name, &jit.functions_, &tried) == nullptr) continue;
    unsigned major = 0, minor = 0;
    if (jit.functions_.version(&major, &minor) == 0) jit.version_ = absl::StrCat(major, ".", minor);
    return jit;
  }
  return absl::NotFoundError(absl::StrCat("no libnvJitLink: ", tried));
}

std::string JitLink::ErrorOf(Handle handle) const {
  size_t bytes = 0;
  if (functions_.log_size(handle, &bytes) != 0 || bytes == 0) return "no reason is given";
  std::string log(bytes, '\0');
  if (functions_.log(handle, log.data()) != 0) return "no reason is given";
  log.resize(std::min(log.size(), log.find('\0')));
  return log;
}

absl::StatusOr<std::string> JitLink::Compile(std::string_view ptx, int sm) const {
  // The library reads up to a zero, so that what stands behind one would not be what was verified.
  if (ptx.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("the text has a zero byte");
  }
  const std::string arch = absl::StrCat("-arch=", TargetFor(ptx, sm));
  const char* options[] = {arch.c_str()};
  Handle handle = nullptr;
  if (const int error = functions_.create(&handle, std::size(options), options); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the compiler does not take ", arch, " (nvJitLink error ", error, ")"));
  }
  const std::string text(ptx);
  int error = functions_.add(handle, kInputPtx, text.c_str(), text.size() + 1, "guarded");
  if (error == 0) error = functions_.complete(handle);
  size_t bytes = 0;
  if (error == 0) error = functions_.cubin_size(handle, &bytes);
  std::string cubin(error == 0 ? bytes : 0, '\0');
  if (error == 0) error = functions_.cubin(handle, cubin.data());
  absl::Status status;
  if (error != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the compiler refuses it (nvJitLink error ", error, "): ", ErrorOf(handle)));
  }
  functions_.destroy(&handle);
  if (!status.ok()) return status;
  return cubin;
}

}  // namespace warpline::compiler
