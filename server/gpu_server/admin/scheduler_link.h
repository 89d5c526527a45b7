// The server's word to its scheduler: reports every second or so, takes the keys of tokens from the
// answers, and ends the leases that they name. While the scheduler does not answer, sessions go on,
// and tokens that are still good open new ones.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_SCHEDULER_LINK_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_SCHEDULER_LINK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "lease/end_reason.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/nvml/device_groups.h"
#include "server/gpu_server/session/session_host.h"
#include "transport/grpc/unary/leader_client.h"

namespace warpline::server {

struct SchedulerLinkOptions {
  std::vector<std::string> schedulers;  // Their addresses, at least one; one of them leads.
  LeaderClient::Targets target;
  std::string credential;
  std::string endpoint;  // Where clients reach this server.
  std::string version;
  // The last line of the audit's record; not set where there is none.
  std::function<std::string()> audit_head;
  // Which of the devices, in the host's order, are close to each other; not set where nobody knows.
  // It is asked until it knows, a few times.
  std::function<nvml::DeviceGroups()> groups;
  absl::Duration answer_timeout = absl::Seconds(2);
  // See MoveServices.
  SwapSpace* space = nullptr;
};

// Has a thread of its own from construction to destruction, which reports once more: a server that
// ends has its host drain before. Host and book are borrowed.
class SchedulerLink {
 public:
  SchedulerLink(SchedulerLinkOptions options, SessionHost* host, LeaseBook* book);
  ~SchedulerLink();

  // Has the scheduler move this server's leases to other servers. Returns once it moves no more of
  // them, or at `deadline`. The host drains by then.
  void MoveAway(absl::Time deadline);

 private:
  void Run();
  void AskForGroups();
  // Returns how long to wait for the next, if one follows.
  absl::Duration ReportOnce(bool goodbye = false);
  void ReportMore(const std::vector<warpline_internal::SessionsReport>& more);
  void Apply(const warpline_internal::ReportReply& reply);
  MoveServices ServicesForMoves();
  void EndLease(const std::string& lease, const EndReason& reason);

  const SchedulerLinkOptions options_;
  SessionHost* const host_;
  LeaseBook* const book_;
  const LeaderClient client_;
  const uint64_t instance_;  // By which the scheduler knows this process from another of its name.
  // Of the thread.
  bool connected_ = false;
  uint64_t reports_ = 0;
  nvml::DeviceGroups groups_;
  int asked_for_groups_ = 0;
  // Why leases end soon, by lease, as it was logged.
  std::map<std::string, std::string> ending_;
  // The newest that an answer was of.
  uint64_t epoch_ = 0;
  std::string trouble_;
  LogBudget log_;

  Mutex mu_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  // The reports say that the server leaves; the scheduler was asked; it moves no more leases.
  bool leaves_ ABSL_GUARDED_BY(mu_) = false;
  bool asked_to_move_ ABSL_GUARDED_BY(mu_) = false;
  bool moved_away_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_SCHEDULER_LINK_H_
