#include "scheduler/renewals.h"

#include <utility>

namespace warpline::scheduler {

const warpline_internal::LeaseReply* Renewals::Find(const std::string& lease,
                                                    const std::string& certificate,
                                                    absl::Time now) const {
  const auto found = answers_.find(lease);
  if (found == answers_.end() || now - found->second.given >= memory_) return nullptr;
  if (found->second.certificate != certificate) return nullptr;
  return &found->second.reply;
}

void Renewals::Put(const std::string& lease, const std::string& certificate,
                   warpline_internal::LeaseReply reply, absl::Time now) {
  if (now - swept_ >= memory_) {
    swept_ = now;
    std::erase_if(answers_, [&](const auto& entry) { return now - entry.second.given >= memory_; });
  }
  answers_[lease] = {now, certificate, std::move(reply)};
}

}  // namespace warpline::scheduler
