// A cluster of etcd of one member on this host, for tests: Debian's etcd-server.
#ifndef WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_
#define WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_store.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {

// Not thread-safe. Ends with this object.
class LocalEtcd {
 public:
  // Returns when it answers; null where the program is not installed or does not start.
  static std::unique_ptr<LocalEtcd> Start();
  ~LocalEtcd();

  const std::string& address() const { return address_; }
  // Reaches it with short deadlines.
  EtcdClientOptions options() const;
  // Stops and continues its process.
  void Pause();
  void Continue();

 private:
  LocalEtcd() = default;

  testing::TempFolder folder_;
  std::string address_;
  pid_t pid_ = -1;
};

// Makes the key of a leader anew, whoever has it.
absl::StatusOr<EtcdGuard> TakeLead(EtcdClient* client, const std::string& key);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_
