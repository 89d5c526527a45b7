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

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "client_stub/session/bulk/bulk_link.h"
#include "client_stub/session/bulk_memory.h"
#include "client_stub/session/counters.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"

namespace warpline::stub {

// Does nothing before Start(), and without it.
class BulkConnections final : public BulkMemory {
 public:
  using NewLink = absl::FunctionRef<std::unique_ptr<BulkLink>(uint32_t slot, uint64_t va)>;

  // The slots' memory is that of SlotAddress(first_slot) and so on. `log` has the kinds of
  // session_log.h. Both are borrowed.
  BulkConnections(uint32_t first_slot, LogBudget* log, Counters* counters)
      : first_slot_(first_slot), log_(log), counters_(counters) {}
  ~BulkConnections() override { Close(); }

  // Called once, before others ask for anything. Nothing is connected before Offer().
  void Start(NewLink new_link);
  // There is, from now on, or is no longer, somebody to connect to. Thread-safe.
  void Offer(bool offered);
  // Ends all connections. Nothing is connected afterwards.
  void Close();

  uint64_t Address(uint32_t slot) const override { return SlotAddress(first_slot_ + slot); }
  uint32_t Ready(uint32_t wanted) override;
  bool Connecting() override { return connecting_.load(std::memory_order_acquire); }
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

  const uint32_t first_slot_;
  LogBudget* const log_;
  Counters* const counters_;
  std::atomic<bool> started_{false};
  std::atomic<bool> offered_{false};
  std::atomic<bool> connecting_{false};
  std::atomic<bool> failed_{false};  // The last attempt, to whom is offered now.
  std::array<std::unique_ptr<BulkLink>, kSlots> links_;  // Constant once started.

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
