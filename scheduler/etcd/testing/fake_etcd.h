// An etcd in memory, for tests that decide when it answers. It knows what the store asks of it:
// range reads and transactions.
#ifndef WARPLINE_SCHEDULER_ETCD_TESTING_FAKE_ETCD_H_
#define WARPLINE_SCHEDULER_ETCD_TESTING_FAKE_ETCD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/etcd/etcd.pb.h"

namespace warpline::scheduler {

// Not thread-safe.
class FakeEtcd {
 public:
  enum class Mood {
    kAnswers,
    kRefuses,  // Nothing is done.
    kFull,     // Transactions are refused, as when etcd has used up its quota, and reads answered.
    kLoses,    // It is done, and the answer does not come.
    kDelays,   // The answer does not come, and a transaction is done with the next FinishDelayed().
  };

  // How the next calls go.
  void SetMood(Mood mood) { mood_ = mood; }
  // For EtcdClientOptions::answer.
  absl::StatusOr<std::string> Answer(const std::string& method, const std::string& request);
  void FinishDelayed();

 private:
  using Entries = std::map<std::string, warpline_etcd::KeyValue>;

  warpline_etcd::RangeResponse Range(const warpline_etcd::RangeRequest& request) const;
  warpline_etcd::TxnResponse Commit(const warpline_etcd::TxnRequest& request);
  bool Holds(const warpline_etcd::Compare& compare) const;

  Mood mood_ = Mood::kAnswers;
  int64_t revision_ = 1;
  Entries entries_;
  std::vector<warpline_etcd::TxnRequest> delayed_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_TESTING_FAKE_ETCD_H_
