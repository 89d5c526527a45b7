#include "scheduler/known_credentials.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "scheduler/state_folder.h"

namespace warpline::scheduler {
namespace {

// Longer ones are nobody's, and are not worth the time that a hash takes.
constexpr size_t kMostBytes = 16384;

std::string Hash(std::string_view credential) {
  if (credential.empty() || credential.size() > kMostBytes) return "";
  return HashCredential(absl::string_view(credential.data(), credential.size()));
}

}  // namespace

void KnownCredentials::Note(std::string_view credential) {
  std::string hash = Hash(credential);
  if (hash.empty()) return;
  MutexLock lock(&mu_);
  if (!hashes_.insert(hash).second) return;
  by_age_.push_back(std::move(hash));
  if (by_age_.size() <= kMost) return;
  hashes_.erase(by_age_.front());
  by_age_.pop_front();
}

std::string KnownCredentials::Find(std::string_view credential) const {
  std::string hash = Hash(credential);
  if (hash.empty()) return "";
  MutexLock lock(&mu_);
  return hashes_.contains(hash) ? hash : "";
}

}  // namespace warpline::scheduler
