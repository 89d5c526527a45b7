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

absl::StatusOr<Viewer> SignIn::Ask(const std::string& credential, const std::string& hash) {
  bool known;
  {
    MutexLock lock(&mu_);
    known = known_.count(hash) != 0;
  }
  if (known) return source_->ViewerOf(credential);
  MutexLock one(&comparing_);
  return source_->ViewerOf(credential);
}

bool SignIn::MayFail(const std::string& peer) {
  if (peers_.count(peer) == 0 && peers_.size() >= kMostPeers) return failures_.Take("", clock_());
  peers_.insert(peer);
  return failures_.Take(peer, clock_());
}

absl::StatusOr<Viewer> SignIn::ViewerOf(const std::string& credential, const std::string& peer) {
  if (credential.empty()) return absl::UnauthenticatedError("no credential");
  const std::string hash = HashCredential(credential);
  auto viewer = Ask(credential, hash);
  MutexLock lock(&mu_);
  if (viewer.ok()) {
    if (known_.size() >= kMostKnown) known_.clear();
    known_.insert(hash);
  } else if (absl::IsUnauthenticated(viewer.status())) {
    known_.erase(hash);
    if (!MayFail(peer)) return absl::ResourceExhaustedError("too many wrong credentials");
  }
  return viewer;
}

}  // namespace warpline::scheduler::page
