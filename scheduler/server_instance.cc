#include "scheduler/server_instance.h"

#include <algorithm>

namespace warpline::scheduler {
namespace {

constexpr size_t kMostFormer = 8;

}  // namespace

bool ServerInstance::Takes(uint64_t instance, const std::string& endpoint, absl::Time now,
                           absl::Duration silence) const {
  if (instance == 0 || current_ == 0 || instance == current_) return true;
  if (gone_ || now - heard_ >= silence) return true;
  return endpoint == endpoint_ &&
         std::find(former_.begin(), former_.end(), instance) == former_.end();
}

void ServerInstance::Note(uint64_t instance, const std::string& endpoint, bool goodbye,
                          absl::Time now) {
  if (instance != current_) {
    former_.erase(std::remove(former_.begin(), former_.end(), instance), former_.end());
    if (current_ != 0) former_.push_back(current_);
    if (former_.size() > kMostFormer) former_.pop_front();
  }
  current_ = instance;
  endpoint_ = endpoint;
  gone_ = goodbye;
  heard_ = now;
}

}  // namespace warpline::scheduler
