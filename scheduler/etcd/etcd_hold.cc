#include "scheduler/etcd/etcd_hold.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/text.h"
#include "scheduler/etcd/etcd.pb.h"
#include "scheduler/etcd/leader.pb.h"

namespace warpline::scheduler {
namespace {

using warpline_etcd::Compare;
using warpline_etcd::Leader;
using warpline_etcd::TxnRequest;

constexpr size_t kMaxAddress = 256;
constexpr size_t kIdBytes = 8;

absl::Status HeldBy(const std::string& value) {
  Leader leader;
  if (!leader.ParseFromString(value)) leader.Clear();
  return absl::FailedPreconditionError(
      absl::StrCat(leader.address().empty()
                       ? "something else works on the state"
                       : absl::StrCat("the scheduler at ",
                                      Quoted(FitText(leader.address(), kMaxAddress)), " leads"),
                   ": stop all schedulers of this state first"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdHold>> EtcdHold::Take(EtcdClient* client,
                                                         const std::string& prefix,
                                                         absl::Duration ttl) {
  const std::string key = absl::StrCat(prefix, kLeaderKey);
  const auto lease = client->GrantLease(ttl);
  if (!lease.ok()) return lease.status();
  // Without an address nobody is sent here.
  Leader self;
  self.set_id(absl::BytesToHexString(RandomBytes(kIdBytes)));
  TxnRequest claim;
  Compare& unclaimed = *claim.add_compare();
  unclaimed.set_result(Compare::EQUAL);
  unclaimed.set_target(Compare::CREATE);
  unclaimed.set_key(key);
  unclaimed.set_create_revision(0);
  auto* const put = claim.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(self.SerializeAsString());
  put->set_lease(*lease);
  claim.add_failure()->mutable_request_range()->set_key(key);
  const auto claimed = client->Commit(claim);
  if (claimed.ok() && claimed->succeeded()) {
    return std::unique_ptr<EtcdHold>(
        new EtcdHold(client, *lease, {key, claimed->header().revision()}));
  }
  (void)client->RevokeLease(*lease);
  if (!claimed.ok()) return claimed.status();
  const bool known =
      claimed->responses_size() == 1 && claimed->responses(0).response_range().kvs_size() == 1;
  return HeldBy(known ? claimed->responses(0).response_range().kvs(0).value() : "");
}

// The key goes with the lease.
EtcdHold::~EtcdHold() { (void)client_->RevokeLease(lease_); }

absl::Status EtcdHold::Extend() {
  const auto left = client_->KeepLeaseAlive(lease_);
  if (!left.ok()) return left.status();
  return *left > absl::ZeroDuration()
             ? absl::OkStatus()
             : absl::FailedPreconditionError("the hold on the state in etcd is over");
}

}  // namespace warpline::scheduler
