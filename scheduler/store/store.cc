#include "scheduler/store/store.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/text.h"
#include "scheduler/store/record_codec.h"

namespace warpline::scheduler {

using namespace state_keys;  // NOLINT(google-build-using-namespace): a page of constants.

namespace {

// Bounds on what is read, some times what a full pool writes.
constexpr size_t kMaxKeys = 200000;
constexpr size_t kMaxBytes = 256u << 20;
constexpr size_t kMaxName = 128;
constexpr size_t kMaxSigningKeys = 4096;

// Whose leases a mark ends: a tenant's or a server's.
struct MarkOwner {
  bool is_tenant = false;
  std::string name;
};

// Returns nothing for a mark that no scheduler writes.
std::optional<MarkOwner> OwnerOf(absl::string_view mark) {
  const bool is_tenant = absl::ConsumePrefix(&mark, kOfTenant);
  if (!is_tenant && !absl::ConsumePrefix(&mark, kOfServer)) return std::nullopt;
  return MarkOwner{is_tenant, std::string(mark)};
}

absl::Status NotThere(absl::string_view what, const std::string& name) {
  return absl::NotFoundError(absl::StrCat("there is no ", what, " ", name));
}

}  // namespace

class Store::Shelf : public KeyShelf {
 public:
  explicit Shelf(Store* store) : store_(store) {}
  absl::StatusOr<std::string> Read() override { return store_->signing_keys_; }
  absl::Status Write(const std::string& text) override {
    if (auto status = store_->Change({.puts = {{kSigningKeys, text}}}); !status.ok()) {
      return status;
    }
    store_->signing_keys_ = text;
    return absl::OkStatus();
  }
  std::string name() const override { return absl::StrCat("the keys in ", store_->keys_->name()); }

 private:
  Store* const store_;
};

// --- Opening.

absl::StatusOr<std::unique_ptr<Store>> Store::Open(std::unique_ptr<KeyValueStore> keys) {
  auto store = OpenToRead(std::move(keys));
  if (!store.ok()) return store;
  absl::Status status;
  if ((*store)->empty()) {
    status = (*store)->keys_->Write({.puts = {{kVersion, absl::StrCat(kStateVersion)}}});
    (*store)->version_ = kStateVersion;
  }
  if (status.ok()) status = (*store)->Settle();
  if (!status.ok()) return (*store)->Explain(status);
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenToRead(std::unique_ptr<KeyValueStore> keys) {
  auto store = std::unique_ptr<Store>(new Store(std::move(keys)));
  if (auto status = store->Load(); !status.ok()) return store->Explain(status);
  return store;
}

absl::Status Store::Load() {
  // First: records of another version may be anything.
  const auto version = keys_->Get(kVersion);
  if (!version.ok()) return version.status();
  if (version->has_value()) {
    if (auto status = TakeVersion(**version); !status.ok()) return status;
  }
  size_t keys = 0;
  size_t bytes = 0;
  absl::Status status =
      keys_->ForEach([&](absl::string_view key, const std::string& value) -> absl::Status {
        bytes += key.size() + value.size();
        if (++keys > kMaxKeys || bytes > kMaxBytes) {
          return absl::DataLossError("it is larger than any that a scheduler writes");
        }
        return TakeKey(key, value);
      });
  if (!status.ok()) return status;
  if (keys > 0 && version_ == 0) return absl::DataLossError("it has records and no version");
  for (const auto& [mark, end] : marks_) ApplyMark(mark, end);
  return absl::OkStatus();
}

absl::Status Store::TakeVersion(const std::string& text) {
  if (!absl::SimpleAtoi(text, &version_) || version_ <= 0) {
    return absl::DataLossError("its version is no number");
  }
  if (version_ == kFillingStateVersion) {
    return absl::FailedPreconditionError(
        "a copy into it has not ended: run `warpline-scheduler state copy` again, which begins "
        "anew");
  }
  if (version_ == kStateVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the state is of version ", version_, ", and this scheduler reads version ", kStateVersion,
      " only: start the scheduler that wrote it, or begin a new state elsewhere"));
}

template <typename Table>
bool Store::TakeInto(Table* table, absl::string_view key, const std::string& value,
                     absl::Status* status) {
  if (!absl::ConsumePrefix(&key, table->kind())) return false;
  if (!IsPlainName(key, kMaxName, "-_.:")) {
    *status =
        absl::DataLossError(absl::StrCat("a key of ", table->kind(), " that no scheduler writes"));
    return true;
  }
  typename Table::Record record;
  *status = Decode(key, value, &record);
  if (status->ok()) table->Put(std::move(record));
  return true;
}

absl::Status Store::TakeKey(absl::string_view key, const std::string& value) {
  if (key == kVersion) return TakeVersion(value);
  if (key == kSigningKeys) {
    if (value.size() > kMaxSigningKeys) return absl::DataLossError("its signing keys are too long");
    signing_keys_ = value;
    return absl::OkStatus();
  }
  if (key == kOperator) {
    operator_hash_ = value;
    return absl::OkStatus();
  }
  absl::string_view mark = key;
  if (absl::ConsumePrefix(&mark, kMark)) {
    return Decode(mark, value, &marks_[std::string(mark)]);
  }
  absl::Status status;
  // Other keys may come from a later scheduler that needed no other version for them.
  (void)(TakeInto(&tenants_, key, value, &status) || TakeInto(&slices_, key, value, &status) ||
         TakeInto(&servers_, key, value, &status) || TakeInto(&credentials_, key, value, &status) ||
         TakeInto(&cordons_, key, value, &status) || TakeInto(&audit_heads_, key, value, &status) ||
         TakeInto(&leases_, key, value, &status));
  return status;
}

// --- Changing.

absl::Status Store::Change(const WriteBatch& batch) {
  if (auto status = Settle(); !status.ok()) return status;
  return keys_->Write(batch);
}

template <typename Table>
absl::Status Store::Put(Table* table, const typename Table::Record& record) {
  const absl::Status status = Change({.puts = {{table->Key(NameOf(record)), Encode(record)}}});
  if (status.ok()) table->Put(record);
  return status;
}

template <typename Table>
absl::Status Store::Add(Table* table, const typename Table::Record& record) {
  if (table->Find(NameOf(record)) == nullptr) return Put(table, record);
  return absl::AlreadyExistsError(absl::StrCat("there is a ", table->what(), " ", NameOf(record)));
}

template <typename Table>
absl::Status Store::Update(Table* table, const typename Table::Record& record) {
  if (table->Find(NameOf(record)) == nullptr) return NotThere(table->what(), NameOf(record));
  return Put(table, record);
}

template <typename Table>
absl::Status Store::Remove(Table* table, const std::string& name) {
  if (table->Find(name) == nullptr) return absl::OkStatus();
  const absl::Status status = Change({.deletes = {table->Key(name)}});
  if (status.ok()) table->Remove(name);
  return status;
}

void Store::ApplyMark(const std::string& mark, const LeaseEnd& end) {
  const auto owner = OwnerOf(mark);
  if (!owner.has_value()) return;
  for (LeaseRecord& lease : ActiveLeases()) {
    if ((owner->is_tenant ? lease.tenant : lease.server) != owner->name) continue;
    lease.state = LeaseState::kRevoked;
    lease.reason = end.reason;
    lease.expires = end.forget;
    leases_.Put(std::move(lease));
  }
}

void Store::EndLeases(const std::string& mark, const LeaseEnd& end) {
  marks_[mark] = end;
  ApplyMark(mark, end);
  // It is done; what is left to write comes before the next change if it cannot be written now.
  (void)Settle();
}

absl::Status Store::Settle() {
  while (!marks_.empty()) {
    const auto [mark, end] = *marks_.begin();
    const MarkOwner owner = OwnerOf(mark).value_or(MarkOwner());
    WriteBatch batch;
    for (const LeaseRecord& lease :
         LeasesIn(owner.is_tenant ? leases_.index().ended_of_tenant(owner.name)
                                  : leases_.index().ended_of_server(owner.name))) {
      // Writing one again that had ended so before is the same.
      if (lease.state != LeaseState::kRevoked || lease.reason != end.reason) continue;
      batch.puts.emplace_back(leases_.Key(lease.id), Encode(lease));
      if (batch.size() + 1 < KeyValueStore::kMaxBatch) continue;
      if (auto status = keys_->Write(batch); !status.ok()) return status;
      batch = {};
    }
    batch.deletes.push_back(absl::StrCat(kMark, mark));
    if (auto status = keys_->Write(batch); !status.ok()) return status;
    marks_.erase(marks_.begin());
  }
  return absl::OkStatus();
}

std::unique_ptr<KeyShelf> Store::SigningKeys() { return std::make_unique<Shelf>(this); }

absl::Status Store::PutOperatorHash(const std::string& hash) {
  const absl::Status status = Change({.puts = {{kOperator, hash}}});
  if (status.ok()) operator_hash_ = hash;
  return status;
}

// --- Tenants, slices and servers.

absl::Status Store::AddTenant(const TenantRecord& tenant) { return Add(&tenants_, tenant); }

absl::Status Store::UpdateTenant(const TenantRecord& tenant) { return Update(&tenants_, tenant); }

absl::Status Store::RemoveTenant(const std::string& name, const LeaseEnd& end) {
  if (tenants_.Find(name) == nullptr) return NotThere("tenant", name);
  const std::string mark = absl::StrCat(kOfTenant, name);
  const absl::Status status =
      Change({.puts = {{absl::StrCat(kMark, mark), Encode(end)}}, .deletes = {tenants_.Key(name)}});
  if (!status.ok()) return status;
  tenants_.Remove(name);
  EndLeases(mark, end);
  return absl::OkStatus();
}

absl::Status Store::AddSlice(const SliceRecord& slice) { return Add(&slices_, slice); }

absl::Status Store::UpdateSlice(const SliceRecord& slice) { return Update(&slices_, slice); }

absl::Status Store::RemoveSlice(const std::string& name) {
  return slices_.Find(name) == nullptr ? NotThere("slice", name) : Remove(&slices_, name);
}

absl::Status Store::PutServer(const ServerRecord& server) { return Put(&servers_, server); }

absl::Status Store::AddServerCredential(const std::string& server, const std::string& hash) {
  return Add(&credentials_, {server, hash});
}

absl::Status Store::UpdateServerCredential(const std::string& server, const std::string& hash) {
  return Update(&credentials_, {server, hash});
}

absl::Status Store::PutCordon(const CordonRecord& cordon) { return Put(&cordons_, cordon); }

absl::Status Store::RemoveCordon(const std::string& server) { return Remove(&cordons_, server); }

absl::Status Store::ForgetServer(const std::string& name) {
  WriteBatch batch = {.deletes = {servers_.Key(name)}};
  const bool comes_back = credentials_.Find(name) != nullptr;
  if (!comes_back) batch.deletes.push_back(audit_heads_.Key(name));
  if (auto status = Change(batch); !status.ok()) return status;
  servers_.Remove(name);
  if (!comes_back) audit_heads_.Remove(name);
  return absl::OkStatus();
}

absl::Status Store::RemoveServer(const std::string& name, const LeaseEnd& end) {
  if (servers_.Find(name) == nullptr && credentials_.Find(name) == nullptr) {
    return NotThere("server", name);
  }
  const std::string mark = absl::StrCat(kOfServer, name);
  const absl::Status status = Change({.puts = {{absl::StrCat(kMark, mark), Encode(end)}},
                                      .deletes = {servers_.Key(name), credentials_.Key(name),
                                                  audit_heads_.Key(name), cordons_.Key(name)}});
  if (!status.ok()) return status;
  servers_.Remove(name);
  credentials_.Remove(name);
  audit_heads_.Remove(name);
  cordons_.Remove(name);
  EndLeases(mark, end);
  return absl::OkStatus();
}

std::string Store::ServerCredential(const std::string& server) const {
  const CredentialRecord* const credential = credentials_.Find(server);
  return credential == nullptr ? std::string() : credential->hash;
}

std::vector<std::string> Store::ServersWithCredential() const {
  std::vector<std::string> names;
  for (const CredentialRecord& credential : credentials_.All()) names.push_back(credential.server);
  return names;
}

absl::Status Store::PutAuditHeads(const std::vector<AuditHead>& heads) {
  for (size_t done = 0; done < heads.size(); done += KeyValueStore::kMaxBatch) {
    const size_t end = std::min(heads.size(), done + KeyValueStore::kMaxBatch);
    WriteBatch batch;
    for (size_t i = done; i < end; ++i) {
      batch.puts.emplace_back(audit_heads_.Key(heads[i].server), Encode(heads[i]));
    }
    if (auto status = Change(batch); !status.ok()) return status;
    for (size_t i = done; i < end; ++i) audit_heads_.Put(heads[i]);
  }
  return absl::OkStatus();
}

// --- Leases.

void Store::ExtendLeases(absl::Time now, absl::Duration ttl) {
  for (LeaseRecord& lease : ActiveLeases()) {
    lease.expires = std::min(now + ttl, lease.ends);
    leases_.Put(std::move(lease));
  }
}

absl::Status Store::AddLease(const LeaseRecord& lease) { return Add(&leases_, lease); }

absl::Status Store::RemoveLease(const std::string& id) { return Remove(&leases_, id); }

absl::Status Store::UpdateLease(const LeaseRecord& lease) {
  const LeaseRecord* const known = leases_.Find(lease.id);
  if (known == nullptr) return NotThere("lease", lease.id);
  LeaseRecord changed = *known;
  changed.by_sessions = lease.by_sessions;
  changed.state = lease.state;
  changed.reason = lease.reason;
  changed.expires = lease.expires;
  changed.holder = lease.holder;
  changed.server = lease.server;
  changed.devices = lease.devices;
  changed.moved = lease.moved;
  return Put(&leases_, changed);
}

std::optional<LeaseRecord> Store::FindLease(const std::string& id) const {
  const LeaseRecord* const lease = leases_.Find(id);
  return lease == nullptr ? std::optional<LeaseRecord>() : *lease;
}

std::vector<LeaseRecord> Store::Leases() const {
  auto all = leases_.All();
  std::sort(all.begin(), all.end(), [](const LeaseRecord& a, const LeaseRecord& b) {
    return std::tie(a.created, a.id) < std::tie(b.created, b.id);
  });
  return all;
}

std::vector<LeaseRecord> Store::ActiveLeases() const {
  std::vector<LeaseRecord> active;
  active.reserve(leases_.index().active().size());
  for (const std::string& id : leases_.index().active()) active.push_back(*leases_.Find(id));
  return active;
}

std::vector<LeaseRecord> Store::LeasesIn(const LeaseIndex::ByTime& ids) const {
  std::vector<LeaseRecord> leases;
  leases.reserve(ids.size());
  for (const auto& [time, id] : ids) leases.push_back(*leases_.Find(id));
  return leases;
}

std::vector<std::string> Store::EndedLeases(const std::string& tenant) const {
  std::vector<std::string> ids;
  for (const auto& [time, id] : leases_.index().ended_of_tenant(tenant)) ids.push_back(id);
  return ids;
}

std::vector<LeaseRecord> Store::EndedLeasesOn(const std::string& server) const {
  return LeasesIn(leases_.index().ended_of_server(server));
}

std::vector<LeaseRecord> Store::LeasesExpiredBy(absl::Time time) const {
  std::vector<LeaseRecord> expired;
  for (const auto& [expires, id] : leases_.index().by_expiry()) {
    if (expires > time) break;
    expired.push_back(*leases_.Find(id));
  }
  return expired;
}

}  // namespace warpline::scheduler
