// The state of several schedulers, in etcd, as one of them sees it that leads, or that only reads.
//
// The store reads everything when it is opened and answers from memory (StateImage). Only the
// leader writes, so what the leader has in memory is what etcd has for as long as it leads. Each
// change is one transaction that is guarded by the key by which it leads: etcd refuses it once
// another scheduler leads, however long this one was paused in between.
//
// Whether a change was made is not always known: its answer may be lost. Such a store takes no
// further change and confirms nothing, and says so to whoever leads with it. A new term, which
// reads everything again, is the way on; a change that is still under way then is refused, because
// its guard has gone.
//
// A transaction has at most kMaxOperations, fewer than etcd's limit of 128 operations. Removing a
// tenant or a server may end more leases than that: the transaction that removes it also writes one
// mark, "the active leases of this tenant have ended". That is when they end, for whoever reads the
// state from then on. Their own records follow in as many transactions as it takes, before any
// other change; the last one removes the mark.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_STORE_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/etcd/etcd.pb.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/state_image.h"
#include "scheduler/records.h"
#include "scheduler/state_folder.h"
#include "scheduler/store.h"

namespace warpline::scheduler {

// The key by which a scheduler leads. It has `create_revision` for as long as that scheduler does.
struct EtcdGuard {
  std::string key;
  int64_t create_revision = 0;
};

// Thread-compatible. Every change waits for etcd.
class EtcdStore : public Store {
 public:
  static constexpr int kMaxOperations = 100;

  // Reads the state that has its keys under `prefix`, for the scheduler that leads by `guard`.
  // `client` is borrowed. `on_lost` is called at most once, from within a call to the store, when
  // the store takes no further change, and says why; it must not call the store. UNAVAILABLE when
  // etcd does not answer, FAILED_PRECONDITION for the state of a newer version or when another
  // scheduler leads, DATA_LOSS for what cannot be read.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> Open(
      EtcdClient* client, const std::string& prefix, const EtcdGuard& guard,
      std::function<void(const std::string& why)> on_lost);
  // Reads it for a scheduler that does not lead: it stays as it is now, and takes no change. With
  // `being_filled` only what OpenToFill() has begun is taken, for who checks what was written.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> OpenToRead(EtcdClient* client,
                                                               const std::string& prefix,
                                                               bool being_filled = false);
  // Opens an empty state in order to copy another one into it. No scheduler leads with it before
  // FinishFilling(); what an earlier copy left that did not get so far is removed.
  // FAILED_PRECONDITION when there is a state already.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> OpenToFill(EtcdClient* client,
                                                               const std::string& prefix,
                                                               const EtcdGuard& guard);
  absl::Status FinishFilling();

  // What the state is of (etcd_records.h); 0 for an empty one.
  int64_t format() const { return format_; }
  // What BackToFormat() drops, in words and with how many there are; empty when it drops nothing.
  std::vector<std::string> LostInFormat(int64_t format) const;
  // Brings the state back to a former format, which schedulers of before lead with. When it is
  // interrupted the state is still of the format that it was of, without some of what
  // LostInFormat() says. INVALID_ARGUMENT for a format that is not between the first and that of
  // the state.
  absl::Status BackToFormat(int64_t format);

  // Where the keys that sign tokens are kept. The store must outlive it.
  std::unique_ptr<KeyShelf> SigningKeys();
  // The hash of the credential that counts with every scheduler; empty until it is put.
  const std::string& operator_hash() const { return image_.operator_hash; }
  absl::Status PutOperatorHash(const std::string& hash);

  absl::Status Explain(const absl::Status& error) const override;
  uint64_t epoch() const override { return static_cast<uint64_t>(guard_.create_revision); }
  absl::Status ConfirmSince(uint64_t mark) override;
  uint64_t confirmations() const override { return confirmations_; }

  absl::Status AddTenant(const TenantRecord& tenant) override;
  absl::Status UpdateTenant(const TenantRecord& tenant) override;
  absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end) override;
  absl::StatusOr<std::vector<TenantRecord>> Tenants() override;
  absl::Status AddSlice(const SliceRecord& slice) override;
  absl::Status UpdateSlice(const SliceRecord& slice) override;
  absl::Status RemoveSlice(const std::string& name) override;
  absl::StatusOr<std::vector<SliceRecord>> Slices() override;
  absl::Status PutServer(const ServerRecord& server) override;
  absl::Status ForgetServer(const std::string& name) override;
  absl::Status RemoveServer(const std::string& name, const LeaseEnd& end) override;
  absl::StatusOr<std::vector<ServerRecord>> Servers() override;
  absl::Status AddServerCredential(const std::string& server, const std::string& hash) override;
  absl::Status UpdateServerCredential(const std::string& server, const std::string& hash) override;
  absl::StatusOr<std::string> ServerCredential(const std::string& server) override;
  absl::StatusOr<std::vector<std::string>> ServersWithCredential() override;
  absl::Status PutCordon(const CordonRecord& cordon) override;
  absl::Status RemoveCordon(const std::string& server) override;
  absl::StatusOr<std::vector<CordonRecord>> Cordons() override;
  absl::Status PutAuditHeads(const std::vector<AuditHead>& heads) override;
  absl::StatusOr<std::vector<AuditHead>> AuditHeads() override;
  // Writes nothing: whoever leads next gives the leases their time anew.
  absl::Status ExtendLeases(absl::Time now, absl::Duration ttl) override;
  absl::Status AddLease(const LeaseRecord& lease) override;
  absl::Status UpdateLease(const LeaseRecord& lease) override;
  absl::Status RemoveLease(const std::string& id) override;
  absl::StatusOr<std::optional<LeaseRecord>> FindLease(const std::string& id) override;
  absl::StatusOr<std::vector<LeaseRecord>> Leases() override;
  absl::StatusOr<std::vector<LeaseRecord>> ActiveLeases() override;
  absl::StatusOr<std::vector<std::string>> EndedLeases(const std::string& tenant) override;
  absl::StatusOr<std::vector<LeaseRecord>> EndedLeasesOn(const std::string& server) override;
  absl::StatusOr<std::vector<LeaseRecord>> LeasesExpiredBy(absl::Time time) override;

 private:
  using Operations = std::vector<warpline_etcd::Operation>;
  class Shelf;

  EtcdStore(EtcdClient* client, std::string prefix, EtcdGuard guard,
            std::function<void(const std::string& why)> on_lost);

  std::string Key(absl::string_view kind, absl::string_view name) const;
  warpline_etcd::Operation Put(absl::string_view kind, absl::string_view name,
                               std::string value) const;
  warpline_etcd::Operation Delete(absl::string_view kind, absl::string_view name) const;

  absl::Status Load();
  absl::Status TakeRecord(absl::string_view key, const std::string& value);
  // FAILED_PRECONDITION for a format that this scheduler does not know. Writes that of a new state.
  absl::Status CheckFormat();
  // Drops all slices from the image. Returns what does the same in etcd, the slices themselves
  // last.
  Operations DropSlices();
  Operations DropReservations();
  // Writes one that is new or changed, and raises the format if it must be.
  absl::Status PutSlice(const SliceRecord& slice);
  // Commits these in as many transactions as they need, `last` with the last of them.
  absl::Status CommitAll(const Operations& operations, const warpline_etcd::Operation& last);
  // Settles what was left unsettled, and commits.
  absl::Status Change(const Operations& operations);
  // Sends one guarded transaction.
  absl::Status Commit(const Operations& operations);
  absl::Status Settle();
  // Ends, in memory, what the mark of this key says.
  void ApplyMark(const std::string& mark, const LeaseEnd& end);
  absl::Status Lose(const std::string& why);

  EtcdClient* const client_;
  const std::string prefix_;
  const EtcdGuard guard_;
  const std::function<void(const std::string& why)> on_lost_;

  StateImage image_;
  // By "tenant/NAME" or "server/NAME": marks in etcd. The image has applied them.
  std::map<std::string, LeaseEnd> marks_;
  int64_t format_ = 0;
  // Another scheduler leads, or a change may or may not have been made.
  bool lost_ = false;
  uint64_t confirmations_ = 0;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_STORE_H_
