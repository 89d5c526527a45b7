#include "scheduler/page/sign_in.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "scheduler/state_folder.h"

namespace warpline::scheduler::page {
namespace {

constexpr absl::string_view kScheme = "Bearer ";
constexpr size_t kMaxCredential = 256;

}  // namespace

std::string BearerCredential(absl::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return "";
  authorization.remove_prefix(kScheme.size());
  const bool plain = std::all_of(authorization.begin(), authorization.end(), absl::ascii_isgraph);
  if (!plain || authorization.size() > kMaxCredential) return "";
  return std::string(authorization);
}

absl::StatusOr<Viewer> SignIn::ViewerOf(const std::string& credential) {
  if (credential.empty()) return absl::UnauthenticatedError("no credential");
  const std::string hash = HashCredential(credential);
  {
    MutexLock lock(&mu_);
    if (known_.count(hash) == 0 && !tries_.Take("", clock_())) {
      return absl::ResourceExhaustedError("too many tries");
    }
  }
  auto viewer = source_->ViewerOf(credential);
  MutexLock lock(&mu_);
  if (viewer.ok()) {
    if (known_.size() >= kMostKnown) known_.clear();
    known_.insert(hash);
  } else if (absl::IsUnauthenticated(viewer.status())) {
    known_.erase(hash);
  }
  return viewer;
}

}  // namespace warpline::scheduler::page
