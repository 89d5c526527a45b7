// A cluster of etcd of one member on this host, for tests: Debian's etcd-server.
#ifndef WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_
#define WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/serving/tls_files.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_key_value_store.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {

// Not thread-safe. Ends with this object.
class LocalEtcd {
 public:
  // Returns when it answers; null where the program is not installed or does not start. With
  // `tls`, which are the files of a client that it accepts, it shows the certificate and key in
  // `cert` and `key` and wants one that `tls.ca` has signed.
  static std::unique_ptr<LocalEtcd> Start(const TlsFiles& tls = {}, const std::string& cert = "",
                                          const std::string& key = "");
  ~LocalEtcd();

  const std::string& address() const { return address_; }
  // Reaches it with deadlines that a busy host does not reach. A test that pauses it has shorter
  // ones.
  EtcdClientOptions options() const;
  // Stops and continues its process.
  void Pause();
  void Continue();

 private:
  LocalEtcd() = default;

  testing::TempFolder folder_;
  std::string address_;
  std::shared_ptr<TlsSource> tls_;
  pid_t pid_ = -1;
};

// Makes the key of a leader anew, whoever has it.
absl::StatusOr<EtcdGuard> TakeLead(EtcdClient* client, const std::string& key);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_TESTING_LOCAL_ETCD_H_
