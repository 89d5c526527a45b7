// Records of one kind in memory, and what finds leases among them.
#ifndef WARPLINE_SCHEDULER_STORE_RECORD_TABLE_H_
#define WARPLINE_SCHEDULER_STORE_RECORD_TABLE_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

// The name of a record in its key.
inline const std::string& NameOf(const TenantRecord& tenant) { return tenant.name; }
inline const std::string& NameOf(const SliceRecord& slice) { return slice.name; }
inline const std::string& NameOf(const ServerRecord& server) { return server.name; }
inline const std::string& NameOf(const CredentialRecord& credential) { return credential.server; }
inline const std::string& NameOf(const CordonRecord& cordon) { return cordon.server; }
inline const std::string& NameOf(const AuditHead& head) { return head.server; }
inline const std::string& NameOf(const LeaseRecord& lease) { return lease.id; }

// For tables that are searched by name only.
template <typename Record>
class NoIndex {
 public:
  void Add(const Record&) {}
  void Remove(const Record&) {}
};

// Thread-compatible.
template <typename RecordType, typename Index = NoIndex<RecordType>>
class RecordTable {
 public:
  using Record = RecordType;

  // `kind` is what its keys begin with, and `what` says to people what a record is.
  RecordTable(const char* kind, const char* what) : kind_(kind), what_(what) {}

  absl::string_view kind() const { return kind_; }
  absl::string_view what() const { return what_; }
  const Index& index() const { return index_; }
  std::string Key(absl::string_view name) const { return absl::StrCat(kind_, name); }

  // Adds a record, or replaces that of its name.
  void Put(Record record) {
    Remove(NameOf(record));
    index_.Add(record);
    const std::string name = NameOf(record);
    records_.emplace(name, std::move(record));
  }
  void Remove(const std::string& name) {
    const auto found = records_.find(name);
    if (found == records_.end()) return;
    index_.Remove(found->second);
    records_.erase(found);
  }
  // Null for one that is not known. Good until the next change.
  const Record* Find(const std::string& name) const {
    const auto found = records_.find(name);
    return found == records_.end() ? nullptr : &found->second;
  }
  // In the order of their names.
  std::vector<Record> All() const {
    std::vector<Record> all;
    all.reserve(records_.size());
    for (const auto& [name, record] : records_) all.push_back(record);
    return all;
  }

 private:
  const char* const kind_;
  const char* const what_;
  std::map<std::string, Record> records_;
  Index index_;
};

// Finds leases without looking at others. Thread-compatible.
class LeaseIndex {
 public:
  using ByTime = std::set<std::pair<absl::Time, std::string>>;

  void Add(const LeaseRecord& lease);
  void Remove(const LeaseRecord& lease);

  // The ids of those that are active.
  const std::set<std::string>& active() const { return active_; }
  // All of them, by when they expire.
  const ByTime& by_expiry() const { return by_expiry_; }
  // Those of a tenant or of a server that have ended, by when they are forgotten.
  const ByTime& ended_of_tenant(const std::string& tenant) const;
  const ByTime& ended_of_server(const std::string& server) const;

 private:
  std::set<std::string> active_;
  ByTime by_expiry_;
  std::map<std::string, ByTime> ended_of_tenant_;
  std::map<std::string, ByTime> ended_of_server_;
};

using LeaseTable = RecordTable<LeaseRecord, LeaseIndex>;

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_RECORD_TABLE_H_
