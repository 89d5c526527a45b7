// The bulk connections of a session, and the thread that connects them when they are first wanted
// and again when they are lost.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_CONNECTIONS_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_CONNECTIONS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk/bulk_link.h"
#include "client_stub/session/bulk_memory.h"
#include "client_stub/session/connection/dialer.h"
#include "client_stub/session/counters.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"

namespace warpline::stub {

// Does nothing before Start(), and without it.
class BulkConnections final : public BulkMemory {
 public:
  // `log` has the kinds of session_log.h. Both are borrowed.
  BulkConnections(LogBudget* log, Counters* counters) : log_(log), counters_(counters) {}
  ~BulkConnections() override { Close(); }

  // Called once, before others ask for anything.
  void Start(DialTarget target, Dialer dialer, BulkIdentity identity);
  // Ends all connections. Nothing is connected afterwards.
  void Close();

  uint32_t Ready(uint32_t wanted) override;
  uint64_t Connection(uint32_t slot) override { return links_[slot]->connection(); }
  BulkTicket Put(uint32_t slot, uint64_t va, std::string_view from) override {
    counters_->bulk_bytes.fetch_add(from.size(), std::memory_order_relaxed);
    return links_[slot]->Put(va, from);
  }
  BulkTicket Get(uint32_t slot, uint64_t va, void* to, uint64_t bytes) override {
    counters_->bulk_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return links_[slot]->Get(va, to, bytes);
  }
  bool Await(uint32_t slot, const BulkTicket& ticket) override {
    return links_[slot]->Await(ticket);
  }

 private:
  void Run();
  // Connects what is wanted and is not there. Returns whether all of it is there now.
  bool ConnectAll(uint32_t wanted);

  LogBudget* const log_;
  Counters* const counters_;
  // Constant once started.
  DialTarget target_;
  Dialer dialer_;
  BulkIdentity identity_;
  std::atomic<bool> started_{false};
  std::array<std::unique_ptr<BulkLink>, kSlots> links_;

  // No more than so many: the server refused the memory of the next one.
  std::atomic<uint32_t> most_{kSlots};
  Mutex mu_;
  CondVar changed_;
  uint32_t wanted_ ABSL_GUARDED_BY(mu_) = 0;
  bool due_ ABSL_GUARDED_BY(mu_) = false;  // Something is to be connected.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_CONNECTIONS_H_
