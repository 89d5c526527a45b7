// Which scheduler leads, of those that share a state in etcd: the one that made the leader's key,
// for as long as the key is there. The key goes with a lease of etcd's, which its maker keeps
// alive. A leader's changes are safe by etcd and not by this class: etcd refuses them once the key
// has gone (etcd_key_value_store.h).
#ifndef WARPLINE_SCHEDULER_ETCD_LEADERSHIP_H_
#define WARPLINE_SCHEDULER_ETCD_LEADERSHIP_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_key_value_store.h"

namespace warpline::scheduler {

struct LeadershipOptions {
  std::string key;      // The leader's.
  std::string address;  // Where servers and clients reach this scheduler.
  // A leader that has not kept its lease alive for this long is no leader any more.
  absl::Duration ttl = absl::Seconds(2);
  // How often the others look whether somebody leads.
  absl::Duration look = absl::Milliseconds(100);
  // A clock that cannot be set: SteadyNow().
  std::function<absl::Time()> clock;
  // Called on the thread of this object, in turns. `lead` takes the state over; when it fails, this
  // scheduler gives the lead up and tries again after a second, and later each time it fails again.
  // `follow` ends what `lead` began.
  std::function<absl::Status(const EtcdGuard& guard)> lead;
  std::function<void()> follow;
};

// Thread-safe. Has a thread of its own, `wl-leader`, from Start() to destruction, which gives the
// lead up so that another scheduler leads at once.
class Leadership {
 public:
  // `client` is borrowed.
  Leadership(LeadershipOptions options, EtcdClient* client);
  ~Leadership();

  void Start();
  // Where the scheduler answers that led when this one last looked; empty when nobody did, or when
  // it is this one.
  std::string LeaderElsewhere() const;
  // Has this scheduler give the lead up of the term with this guard, and try for it anew. Returns
  // at once.
  void GiveUp(const EtcdGuard& guard, const std::string& why);

 private:
  struct Term {
    EtcdGuard guard;
    int64_t lease = 0;
    absl::Time until;  // It is over then unless the lease is kept alive before.
  };

  void Run();
  // Returns how long to wait for the next step.
  absl::Duration Step();
  void TryToLead();
  void KeepLeading();
  void EndTerm(const std::string& why);
  // Takes the key away if it is that of `guard`.
  absl::Status RemoveKey(const EtcdGuard& guard);
  void SetLeader(const std::string& address);
  void Note(const absl::Status& trouble);

  const LeadershipOptions options_;
  EtcdClient* const client_;
  const std::string id_;

  // Of the thread.
  std::optional<Term> term_;
  std::string trouble_;
  // It does not try to lead before, since it could not take the state over lately.
  absl::Time next_try_ = absl::InfinitePast();
  absl::Duration pause_;

  mutable Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::string leader_ ABSL_GUARDED_BY(mu_);
  // The term that is to be given up, and why.
  std::optional<std::pair<EtcdGuard, std::string>> give_up_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_LEADERSHIP_H_
