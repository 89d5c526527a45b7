#include "client_stub/core/tier/tier_watch.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/tier/file_survey.h"

namespace warpline::stub {
namespace {

// What stood in the way; empty where it was not the tier.
std::string ObstacleOf(CudaResult result, const void* image, std::string_view name) {
  switch (result) {
    case CudaResult::kNoBinaryForGpu:
      return absl::StrCat(ModuleAt(image), " has no PTX for the device");
    case CudaResult::kInvalidPtx:
      return absl::StrCat(ModuleAt(image), " is refused by the guard");
    case CudaResult::kJitCompilerNotFound:
      return "the server has no compiler for the guarded tier";
    case CudaResult::kNotSupported:
      if (name.empty()) return "";
      return absl::StrCat(std::string(name), " of ", ModuleAt(image), " is refused by the guard");
    default:
      return "";
  }
}

}  // namespace

std::string ModuleAt(const void* image) {
  Dl_info info;
  if (image == nullptr || dladdr(image, &info) == 0 || info.dli_fname == nullptr) {
    return "a module";
  }
  return absl::StrCat("a module of ", std::string(tier::FileName(info.dli_fname)));
}

void TierWatch::OnModule(CudaResult result, const void* image, std::string_view name) {
  if (const std::string obstacle = ObstacleOf(result, image, name); !obstacle.empty()) {
    Note(obstacle);
  }
}

void TierWatch::OnCall(CudaResult result, std::string_view what) {
  if (result == CudaResult::kNotSupported) {
    Note(absl::StrCat("the tier has no ", std::string(what)));
  }
}

void TierWatch::OnMemoryRefused() { Note("more memory was refused than it had from the start"); }

void TierWatch::Note(const std::string& obstacle) {
  {
    MutexLock lock(&mu_);
    if (noted_) return;
    noted_ = true;
  }
  const char* advice = "run it with --tier=isolated";
  if (record_.has_value() && record_->Add(program_, obstacle)) {
    advice = "run it again: --tier=auto chooses isolated from now on";
  }
  LogError("the guarded tier cannot do all of this program: ", obstacle, "; ", advice);
}

}  // namespace warpline::stub
