// The scheduler's state: its records, kept where they outlive the scheduler. Every change is kept
// when its call returns, whole or not at all, so that a scheduler that is killed at any moment goes
// on from its last answer.
//
//   auto keys = SqliteKeyValueStore::Open(folder + "/state.db");
//   if (!keys.ok()) return keys.status();
//   auto store = Store::Open(*std::move(keys));
//
// A store reads everything when it is opened and answers from memory. Only one scheduler writes:
// the only one, or the one that leads. So what it has in memory is what is kept.
//
// A batch of changes is bounded (KeyValueStore::kMaxBatch), and removing a tenant or a server may
// end more leases than that. The batch that removes it also writes one mark, "the active leases of
// this tenant have ended". That is when they end, for whoever reads the state from then on. Their
// own records follow in as many batches as it takes, before any other change; the last one removes
// the mark.
#ifndef WARPLINE_SCHEDULER_STORE_STORE_H_
#define WARPLINE_SCHEDULER_STORE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/records.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/key_value_store.h"
#include "scheduler/store/record_table.h"
#include "scheduler/store/state_keys.h"

namespace warpline::scheduler {

// The version of the state that this scheduler reads and writes. It stands beside the records.
inline constexpr int64_t kStateVersion = 1;
// The version of a state into which another one is being copied. No scheduler reads it.
inline constexpr int64_t kFillingStateVersion = 1000000;

// Thread-compatible. Any change may return the errors of KeyValueStore::Write(), and has changed
// nothing then, or this store takes no further change.
class Store {
 public:
  // Opens the state that has these keys, or a new one where there are none. FAILED_PRECONDITION for
  // the state of another version or when another scheduler leads, DATA_LOSS for what cannot be
  // read, UNAVAILABLE. The message is that of KeyValueStore::Explain().
  static absl::StatusOr<std::unique_ptr<Store>> Open(std::unique_ptr<KeyValueStore> keys);
  // Opens it without writing anything: it may be empty(), and stays as it is now. A store
  // that does not lead returns FAILED_PRECONDITION for every change.
  static absl::StatusOr<std::unique_ptr<Store>> OpenToRead(std::unique_ptr<KeyValueStore> keys);

  // Returns whether there is no state.
  bool empty() const { return version_ == 0; }
  KeyValueStore* keys() const { return keys_.get(); }
  absl::Status Explain(const absl::Status& error) const { return keys_->Explain(error); }
  uint64_t epoch() const { return keys_->epoch(); }
  uint64_t confirmations() const { return keys_->confirmations(); }
  absl::Status ConfirmSince(uint64_t mark) { return keys_->ConfirmSince(mark); }

  // Where the keys that sign tokens are kept if several schedulers share the state. The store must
  // outlive it.
  std::unique_ptr<KeyShelf> SigningKeys();
  // The hash of the credential that counts with every scheduler; empty until it is put.
  const std::string& operator_hash() const { return operator_hash_; }
  absl::Status PutOperatorHash(const std::string& hash);

  // Adding returns ALREADY_EXISTS for a known name, and updating NOT_FOUND for an unknown one.
  absl::Status AddTenant(const TenantRecord& tenant);
  absl::Status UpdateTenant(const TenantRecord& tenant);
  // Removes the tenant, and ends its active leases as `end` says.
  absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end);
  std::vector<TenantRecord> Tenants() const { return tenants_.All(); }

  // Adding returns ALREADY_EXISTS for a known name, updating and removing NOT_FOUND for an unknown
  // one. Leases keep the shape that they were made with.
  absl::Status AddSlice(const SliceRecord& slice);
  absl::Status UpdateSlice(const SliceRecord& slice);
  absl::Status RemoveSlice(const std::string& name);
  // In the order of their names.
  std::vector<SliceRecord> Slices() const { return slices_.All(); }

  // Adds the server, or replaces what is known of it.
  absl::Status PutServer(const ServerRecord& server);
  // Forgets the server, which may register again, and the head of its audit unless it has a
  // credential. A cordon stays.
  absl::Status ForgetServer(const std::string& name);
  // Removes the server with its credential and its cordon, and ends its active leases as `end`
  // says. NOT_FOUND for a server that has neither registered nor a credential.
  absl::Status RemoveServer(const std::string& name, const LeaseEnd& end);
  std::vector<ServerRecord> Servers() const { return servers_.All(); }

  // Store the hash of a server's credential. Adding returns ALREADY_EXISTS, and updating NOT_FOUND.
  absl::Status AddServerCredential(const std::string& server, const std::string& hash);
  absl::Status UpdateServerCredential(const std::string& server, const std::string& hash);
  // Returns an empty text for a server that has no credential.
  std::string ServerCredential(const std::string& server) const;
  // The names of the servers that have a credential.
  std::vector<std::string> ServersWithCredential() const;

  // Adds the cordon, or replaces that of its server.
  absl::Status PutCordon(const CordonRecord& cordon);
  // OK also where there is none.
  absl::Status RemoveCordon(const std::string& server);
  std::vector<CordonRecord> Cordons() const { return cordons_.All(); }

  // Adds these, or replaces what was known of their servers. Where that fails, some may have been
  // kept.
  absl::Status PutAuditHeads(const std::vector<AuditHead>& heads);
  std::vector<AuditHead> AuditHeads() const { return audit_heads_.All(); }

  // Gives every active lease the time `ttl` from `now` on, but not beyond its end: while nobody
  // led, leases could not be renewed. That is kept with the next change of a lease only, since
  // whoever leads next does the same.
  void ExtendLeases(absl::Time now, absl::Duration ttl);

  // ALREADY_EXISTS for a known id.
  absl::Status AddLease(const LeaseRecord& lease);
  // Updates state, reason, expiry, holder, and the server and devices with how it came there.
  // NOT_FOUND for an unknown lease.
  absl::Status UpdateLease(const LeaseRecord& lease);
  // OK also where there is none.
  absl::Status RemoveLease(const std::string& id);
  std::optional<LeaseRecord> FindLease(const std::string& id) const;
  // The first that was created first.
  std::vector<LeaseRecord> Leases() const;
  // Those of one kind, found without looking at the others.
  std::vector<LeaseRecord> ActiveLeases() const;
  // The ids of those that have ended, the one that is forgotten first at the front.
  std::vector<std::string> EndedLeases(const std::string& tenant) const;
  // Those of a server that have ended.
  std::vector<LeaseRecord> EndedLeasesOn(const std::string& server) const;
  // In any state. A lease expires no later than it ends.
  std::vector<LeaseRecord> LeasesExpiredBy(absl::Time time) const;

 private:
  class Shelf;

  explicit Store(std::unique_ptr<KeyValueStore> keys) : keys_(std::move(keys)) {}

  template <typename Table>
  absl::Status Add(Table* table, const typename Table::Record& record);
  template <typename Table>
  absl::Status Update(Table* table, const typename Table::Record& record);
  template <typename Table>
  absl::Status Put(Table* table, const typename Table::Record& record);
  template <typename Table>
  absl::Status Remove(Table* table, const std::string& name);

  absl::Status Load();
  absl::Status TakeKey(absl::string_view key, const std::string& value);
  // Takes the record if its key is one of the table. Returns whether it is.
  template <typename Table>
  bool TakeInto(Table* table, absl::string_view key, const std::string& value,
                absl::Status* status);
  // FAILED_PRECONDITION for another version, DATA_LOSS for what is none.
  absl::Status TakeVersion(const std::string& text);
  // Settles what was left unsettled, and writes.
  absl::Status Change(const WriteBatch& batch);
  absl::Status Settle();
  // Ends, in memory, what the mark of this name says.
  void ApplyMark(const std::string& mark, const LeaseEnd& end);
  // Carries out what is left of a removal, whose batch with this mark is written.
  void EndLeases(const std::string& mark, const LeaseEnd& end);
  std::vector<LeaseRecord> LeasesIn(const LeaseIndex::ByTime& ids) const;

  const std::unique_ptr<KeyValueStore> keys_;
  int64_t version_ = 0;  // 0 while there is no state.
  RecordTable<TenantRecord> tenants_{state_keys::kTenant, "tenant"};
  RecordTable<SliceRecord> slices_{state_keys::kSlice, "slice"};
  RecordTable<ServerRecord> servers_{state_keys::kServer, "server"};
  RecordTable<CredentialRecord> credentials_{state_keys::kCredential, "credential of server"};
  RecordTable<CordonRecord> cordons_{state_keys::kCordon, "cordon of server"};
  RecordTable<AuditHead> audit_heads_{state_keys::kAudit, "audit of server"};
  LeaseTable leases_{state_keys::kLease, "lease"};
  std::string signing_keys_;
  std::string operator_hash_;
  // By "tenant/NAME" or "server/NAME": marks that are kept. The tables have applied them.
  std::map<std::string, LeaseEnd> marks_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_STORE_H_
