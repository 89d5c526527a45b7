#include "scheduler/etcd/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/text.h"
#include "scheduler/etcd/leader.pb.h"
#include "transport/loop_thread.h"

namespace warpline::scheduler {
namespace {

using warpline_etcd::Compare;
using warpline_etcd::Leader;
using warpline_etcd::RangeRequest;
using warpline_etcd::TxnRequest;

constexpr size_t kIdBytes = 8;
constexpr size_t kMaxAddress = 256;
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(30);

Compare CreatedAt(const EtcdGuard& guard) {
  Compare compare;
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(guard.key);
  compare.set_create_revision(guard.create_revision);
  return compare;
}

}  // namespace

Leadership::Leadership(LeadershipOptions options, EtcdClient* client)
    : options_(std::move(options)),
      client_(client),
      id_(absl::BytesToHexString(RandomBytes(kIdBytes))) {}

Leadership::~Leadership() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Leadership::Start() {
  thread_ = StartLoopThread("wl-leader", [this] { Run(); });
}

std::string Leadership::LeaderElsewhere() const {
  MutexLock lock(&mu_);
  return leader_;
}

void Leadership::SetLeader(const std::string& address) {
  MutexLock lock(&mu_);
  leader_ = address;
}

void Leadership::GiveUp(const EtcdGuard& guard, const std::string& why) {
  MutexLock lock(&mu_);
  give_up_ = {guard, why};
  changed_.NotifyAll();
}

// Says each trouble once.
void Leadership::Note(const absl::Status& trouble) {
  const std::string text(trouble.message());
  if (text != trouble_ && !trouble.ok()) LogWarning("cannot lead: ", text);
  if (trouble.ok() && !trouble_.empty()) LogInfo("etcd answers again");
  trouble_ = text;
}

void Leadership::Run() {
  while (true) {
    const absl::Time next = options_.clock() + Step();
    MutexLock lock(&mu_);
    while (!stopping_ && !give_up_.has_value() && options_.clock() < next) {
      changed_.WaitWithTimeout(&mu_, std::max(next - options_.clock(), absl::Milliseconds(1)));
    }
    if (stopping_) break;
  }
  if (term_.has_value()) EndTerm("this scheduler is shutting down");
}

absl::Duration Leadership::Step() {
  std::optional<std::pair<EtcdGuard, std::string>> give_up;
  {
    MutexLock lock(&mu_);
    give_up.swap(give_up_);
  }
  if (term_.has_value() && give_up.has_value() &&
      give_up->first.create_revision == term_->guard.create_revision) {
    EndTerm(give_up->second);
  }
  if (term_.has_value()) {
    KeepLeading();
  } else {
    TryToLead();
  }
  return term_.has_value() ? options_.ttl / 4 : options_.look;
}

void Leadership::TryToLead() {
  RangeRequest look;
  look.set_key(options_.key);
  const auto found = client_->Range(look);
  if (!found.ok()) {
    SetLeader("");
    Note(found.status());
    return;
  }
  if (!found->kvs().empty()) {
    const auto& entry = found->kvs(0);
    Leader leader;
    // Whoever can write there can name any address; what does not parse names none.
    if (!leader.ParseFromString(entry.value())) leader.Clear();
    if (leader.id() == id_) {
      // The answer to an attempt of our own was lost.
      Note(RemoveKey({options_.key, entry.create_revision()}));
      return;
    }
    Note(absl::OkStatus());
    SetLeader(FitText(leader.address(), kMaxAddress));
    return;
  }
  SetLeader("");
  const absl::Time began = options_.clock();
  if (began < next_try_) return;
  const auto lease = client_->GrantLease(options_.ttl);
  if (!lease.ok()) return Note(lease.status());
  Leader self;
  self.set_address(options_.address);
  self.set_id(id_);
  TxnRequest claim;
  *claim.add_compare() = CreatedAt({options_.key, 0});
  auto* const put = claim.add_success()->mutable_request_put();
  put->set_key(options_.key);
  put->set_value(self.SerializeAsString());
  put->set_lease(*lease);
  const auto claimed = client_->Commit(claim);
  if (!claimed.ok() || !claimed->succeeded()) {
    // Another one was faster, or it is not known; then the key goes with its lease.
    (void)client_->RevokeLease(*lease);
    return Note(claimed.status());
  }
  Note(absl::OkStatus());
  const EtcdGuard guard = {options_.key, claimed->header().revision()};
  term_ = Term{guard, *lease, began + options_.ttl};
  LogInfo("leads epoch=", guard.create_revision);
  if (auto status = options_.lead(guard); !status.ok()) {
    EndTerm(std::string(status.message()));
    Note(status);
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    next_try_ = options_.clock() + pause_;
    return;
  }
  pause_ = absl::ZeroDuration();
}

void Leadership::KeepLeading() {
  const absl::Time began = options_.clock();
  // After a pause of this process the lease may be over, whatever etcd says a moment later.
  if (began >= term_->until) return EndTerm("its lease in etcd was not kept alive in time");
  const auto left = client_->KeepLeaseAlive(term_->lease);
  if (left.ok() && *left <= absl::ZeroDuration()) return EndTerm("its lease in etcd has ended");
  if (left.ok()) term_->until = began + std::min(*left, options_.ttl);
  if (!left.ok() && options_.clock() >= term_->until) {
    EndTerm(absl::StrCat("its lease in etcd cannot be kept alive: ", left.status().message()));
  }
}

absl::Status Leadership::RemoveKey(const EtcdGuard& guard) {
  TxnRequest remove;
  *remove.add_compare() = CreatedAt(guard);
  remove.add_success()->mutable_request_delete_range()->set_key(guard.key);
  return client_->Commit(remove).status();
}

void Leadership::EndTerm(const std::string& why) {
  const Term ended = *std::exchange(term_, std::nullopt);
  LogWarning("leads no more epoch=", ended.guard.create_revision, " reason=", Quoted(why));
  options_.follow();
  // Where this fails the key goes with its lease, or is found and removed before the next attempt.
  (void)RemoveKey(ended.guard);
  (void)client_->RevokeLease(ended.lease);
}

}  // namespace warpline::scheduler
