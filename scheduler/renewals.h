// The latest answers to renewals, so that who renews a lease again and again is answered without
// the disk.
#ifndef WARPLINE_SCHEDULER_RENEWALS_H_
#define WARPLINE_SCHEDULER_RENEWALS_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "proto/leases.pb.h"

namespace warpline::scheduler {

// Thread-compatible. Holds one answer for each lease that was renewed within `memory`, and some
// older ones.
class Renewals {
 public:
  explicit Renewals(absl::Duration memory) : memory_(memory) {}

  // The answer to the lease's renewal of less than `memory` ago, whose token was for `certificate`
  // (CertificateHolder's); null without one. Good until the next call.
  const warpline_internal::LeaseReply* Find(const std::string& lease,
                                            const std::string& certificate, absl::Time now) const;
  void Put(const std::string& lease, const std::string& certificate,
           warpline_internal::LeaseReply reply, absl::Time now);
  // The lease has ended.
  void Forget(const std::string& lease) { answers_.erase(lease); }
  // What answers say of tenants or servers has changed.
  void ForgetAll() { answers_.clear(); }

 private:
  struct Answer {
    absl::Time given;
    std::string certificate;
    warpline_internal::LeaseReply reply;
  };

  const absl::Duration memory_;
  std::map<std::string, Answer> answers_;
  absl::Time swept_ = absl::InfinitePast();
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_RENEWALS_H_
