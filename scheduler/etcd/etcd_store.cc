#include "scheduler/etcd/etcd_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/text.h"
#include "scheduler/etcd/etcd_keys.h"
#include "scheduler/etcd/etcd_records.h"

namespace warpline::scheduler {

using namespace etcd_keys;  // NOLINT(google-build-using-namespace): a page of constants.

namespace {

using warpline_etcd::Compare;
using warpline_etcd::Operation;
using warpline_etcd::TxnRequest;

// Bounds on what is read, some times what a full pool writes.
constexpr size_t kMaxKeys = 200000;
constexpr size_t kMaxBytes = 256u << 20;
constexpr int64_t kPage = 256;
constexpr size_t kMaxName = 128;
constexpr size_t kMaxSigningKeys = 4096;

absl::Status AnotherLeads() { return absl::FailedPreconditionError("another scheduler leads"); }

Compare GuardedBy(const EtcdGuard& guard) {
  Compare compare;
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(guard.key);
  compare.set_create_revision(guard.create_revision);
  return compare;
}

}  // namespace

class EtcdStore::Shelf : public KeyShelf {
 public:
  explicit Shelf(EtcdStore* store) : store_(store) {}
  absl::StatusOr<std::string> Read() override { return store_->image_.signing_keys; }
  absl::Status Write(const std::string& text) override {
    if (auto status = store_->Change({store_->Put(kSigningKeys, "", text)}); !status.ok()) {
      return status;
    }
    store_->image_.signing_keys = text;
    return absl::OkStatus();
  }
  std::string name() const override { return store_->Key(kSigningKeys, ""); }

 private:
  EtcdStore* const store_;
};

EtcdStore::EtcdStore(EtcdClient* client, std::string prefix, EtcdGuard guard,
                     std::function<void(const std::string& why)> on_lost)
    : client_(client),
      prefix_(std::move(prefix)),
      guard_(std::move(guard)),
      on_lost_(std::move(on_lost)) {}

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Open(
    EtcdClient* client, const std::string& prefix, const EtcdGuard& guard,
    std::function<void(const std::string& why)> on_lost) {
  auto store = std::unique_ptr<EtcdStore>(new EtcdStore(client, prefix, guard, std::move(on_lost)));
  absl::Status status = store->Load();
  if (status.ok()) status = store->CheckFormat();
  if (status.ok()) status = store->Settle();
  if (!status.ok()) return store->Explain(status);
  return store;
}

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::OpenToRead(EtcdClient* client,
                                                                 const std::string& prefix,
                                                                 bool being_filled) {
  auto store = std::unique_ptr<EtcdStore>(new EtcdStore(client, prefix, {}, nullptr));
  store->lost_ = true;
  absl::Status status = store->Load();
  if (status.ok() && !being_filled) status = store->CheckFormat();
  if (status.ok() && being_filled && store->format_ != kFillingEtcdFormat) {
    status = absl::FailedPreconditionError("it is not being filled");
  }
  if (!status.ok()) return store->Explain(status);
  return store;
}

std::unique_ptr<KeyShelf> EtcdStore::SigningKeys() { return std::make_unique<Shelf>(this); }

absl::Status EtcdStore::Explain(const absl::Status& error) const {
  return absl::Status(error.code(), absl::StrCat("the state under ", prefix_, " in etcd at ",
                                                 client_->name(), ": ", error.message()));
}

// --- Keys.

std::string EtcdStore::Key(absl::string_view kind, absl::string_view name) const {
  return absl::StrCat(prefix_, kind, name);
}

Operation EtcdStore::Put(absl::string_view kind, absl::string_view name, std::string value) const {
  Operation operation;
  operation.mutable_request_put()->set_key(Key(kind, name));
  operation.mutable_request_put()->set_value(std::move(value));
  return operation;
}

Operation EtcdStore::Delete(absl::string_view kind, absl::string_view name) const {
  Operation operation;
  operation.mutable_request_delete_range()->set_key(Key(kind, name));
  return operation;
}

// --- Reading.

absl::Status EtcdStore::Load() {
  warpline_etcd::RangeRequest request;
  request.set_key(prefix_);
  request.set_range_end(EndOfPrefix(prefix_));
  request.set_limit(kPage);
  size_t keys = 0;
  size_t bytes = 0;
  while (true) {
    const auto page = client_->Range(request);
    if (absl::IsResourceExhausted(page.status()) && request.limit() > 1) {
      // The records are long ones.
      request.set_limit(request.limit() / 4);
      continue;
    }
    if (!page.ok()) return page.status();
    for (const auto& entry : page->kvs()) {
      bytes += entry.key().size() + entry.value().size();
      if (++keys > kMaxKeys || bytes > kMaxBytes) {
        return absl::DataLossError("it is larger than any that a scheduler writes");
      }
      absl::string_view key = entry.key();
      if (!absl::ConsumePrefix(&key, prefix_)) {
        return absl::DataLossError("etcd sent keys that were not asked for");
      }
      if (auto status = TakeRecord(key, entry.value()); !status.ok()) return status;
    }
    if (!page->more() || page->kvs().empty()) break;
    // All pages are of one moment.
    request.set_revision(page->header().revision());
    request.set_key(absl::StrCat(page->kvs(page->kvs_size() - 1).key(), std::string(1, '\0')));
  }
  for (const auto& [mark, end] : marks_) ApplyMark(mark, end);
  return absl::OkStatus();
}

absl::Status EtcdStore::TakeRecord(absl::string_view key, const std::string& value) {
  if (key == kFormat) {
    if (absl::SimpleAtoi(value, &format_) && format_ > 0) return absl::OkStatus();
    return absl::DataLossError("its format is no number");
  }
  if (key == kSigningKeys) {
    if (value.size() > kMaxSigningKeys) return absl::DataLossError("its signing keys are too long");
    image_.signing_keys = value;
    return absl::OkStatus();
  }
  if (key == kOperator) {
    image_.operator_hash = value;
    return absl::OkStatus();
  }
  absl::string_view name = key;
  if (absl::ConsumePrefix(&name, kMark)) {
    const auto end = DecodeEnd(value);
    if (end.ok()) marks_[std::string(name)] = *end;
    return end.status();
  }
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos) return absl::OkStatus();  // The leader's, or a newer one's.
  const absl::string_view kind = key.substr(0, slash + 1);
  name = key.substr(slash + 1);
  if (!IsPlainName(name, kMaxName, "-_.:")) {
    return absl::DataLossError(absl::StrCat("a key of ", kind, " that no scheduler writes"));
  }
  const std::string text(name);
  if (kind == kTenant) {
    const auto tenant = DecodeTenant(name, value);
    if (tenant.ok()) image_.tenants[text] = *tenant;
    return tenant.status();
  }
  if (kind == kSlice) {
    const auto slice = DecodeSlice(name, value);
    if (slice.ok()) image_.slices[text] = *slice;
    return slice.status();
  }
  if (kind == kServer) {
    const auto server = DecodeServer(name, value);
    if (server.ok()) image_.servers[text] = *server;
    return server.status();
  }
  if (kind == kCredential) {
    const auto hash = DecodeCredential(value);
    if (hash.ok()) image_.credentials[text] = *hash;
    return hash.status();
  }
  if (kind == kCordon) {
    const auto cordon = DecodeCordon(name, value);
    if (cordon.ok()) image_.cordons[text] = *cordon;
    return cordon.status();
  }
  if (kind == kAudit) {
    const auto head = DecodeAuditHead(name, value);
    if (head.ok()) image_.audit_heads[text] = *head;
    return head.status();
  }
  if (kind == kLease) {
    const auto lease = DecodeLease(name, value);
    if (lease.ok()) image_.PutLease(*lease);
    return lease.status();
  }
  return absl::OkStatus();  // Of a version that needs no newer format for it.
}

// --- Changing.

absl::Status EtcdStore::Lose(const std::string& why) {
  if (!lost_ && on_lost_) on_lost_(why);
  lost_ = true;
  return AnotherLeads();
}

absl::Status EtcdStore::Commit(const Operations& operations) {
  if (lost_) return AnotherLeads();
  TxnRequest transaction;
  *transaction.add_compare() = GuardedBy(guard_);
  for (const Operation& operation : operations) *transaction.add_success() = operation;
  const auto reply = client_->Commit(transaction);
  if (!reply.ok()) {
    if (MayHaveHappened(reply.status())) {
      (void)Lose(
          absl::StrCat("it is not known whether a change was made: ", reply.status().message()));
    }
    return absl::UnavailableError(absl::StrCat("the state: ", reply.status().message()));
  }
  if (!reply->succeeded()) return Lose("another scheduler leads");
  ++confirmations_;
  return absl::OkStatus();
}

absl::Status EtcdStore::Change(const Operations& operations) {
  if (auto status = Settle(); !status.ok()) return status;
  return Commit(operations);
}

absl::Status EtcdStore::ConfirmSince(uint64_t mark) {
  if (lost_) return AnotherLeads();
  if (confirmations_ > mark) return absl::OkStatus();
  TxnRequest look;
  *look.add_compare() = GuardedBy(guard_);
  // Without something to read, etcd would answer without asking a majority.
  look.add_success()->mutable_request_range()->set_key(guard_.key);
  look.add_failure()->mutable_request_range()->set_key(guard_.key);
  const auto reply = client_->Look(look);
  if (!reply.ok()) {
    return absl::UnavailableError(absl::StrCat("the state: ", reply.status().message()));
  }
  if (!reply->succeeded()) return Lose("another scheduler leads");
  ++confirmations_;
  return absl::OkStatus();
}

void EtcdStore::ApplyMark(const std::string& mark, const LeaseEnd& end) {
  absl::string_view name = mark;
  const bool of_tenant = absl::ConsumePrefix(&name, kOfTenant);
  if (!of_tenant && !absl::ConsumePrefix(&name, kOfServer)) return;
  for (LeaseRecord& lease : image_.ActiveLeases()) {
    if ((of_tenant ? lease.tenant : lease.server) != name) continue;
    lease.state = LeaseState::kRevoked;
    lease.reason = end.reason;
    lease.expires = end.forget;
    image_.PutLease(std::move(lease));
  }
}

absl::Status EtcdStore::Settle() {
  while (!marks_.empty()) {
    const auto [mark, end] = *marks_.begin();
    absl::string_view name = mark;
    const bool of_tenant = absl::ConsumePrefix(&name, kOfTenant);
    if (!of_tenant) absl::ConsumePrefix(&name, kOfServer);
    // Which of them had ended so before is not worth to be known: writing them again is the same.
    const auto ended = image_.LeasesWhere([&, &end = end](const LeaseRecord& lease) {
      return (of_tenant ? lease.tenant : lease.server) == name &&
             lease.state == LeaseState::kRevoked && lease.reason == end.reason;
    });
    Operations operations;
    for (const LeaseRecord& lease : ended) {
      operations.push_back(Put(kLease, lease.id, EncodeLease(lease)));
      if (operations.size() + 1 < kMaxOperations) continue;
      if (auto status = Commit(operations); !status.ok()) return status;
      operations.clear();
    }
    operations.push_back(Delete(kMark, mark));
    if (auto status = Commit(operations); !status.ok()) return status;
    marks_.erase(marks_.begin());
  }
  return absl::OkStatus();
}

// --- Tenants.

absl::Status EtcdStore::AddTenant(const TenantRecord& tenant) {
  if (image_.tenants.count(tenant.name) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant.name));
  }
  if (auto status = Change({Put(kTenant, tenant.name, EncodeTenant(tenant))}); !status.ok()) {
    return status;
  }
  image_.tenants[tenant.name] = tenant;
  return absl::OkStatus();
}

absl::Status EtcdStore::UpdateTenant(const TenantRecord& tenant) {
  if (image_.tenants.count(tenant.name) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no tenant ", tenant.name));
  }
  if (auto status = Change({Put(kTenant, tenant.name, EncodeTenant(tenant))}); !status.ok()) {
    return status;
  }
  image_.tenants[tenant.name] = tenant;
  return absl::OkStatus();
}

absl::Status EtcdStore::RemoveTenant(const std::string& name, const LeaseEnd& end) {
  if (image_.tenants.count(name) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no tenant ", name));
  }
  const std::string mark = absl::StrCat(kOfTenant, name);
  if (auto status = Change({Delete(kTenant, name), Put(kMark, mark, EncodeEnd(end))});
      !status.ok()) {
    return status;
  }
  image_.tenants.erase(name);
  marks_[mark] = end;
  ApplyMark(mark, end);
  // It is done; what is left to write comes before the next change if it cannot be written now.
  (void)Settle();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TenantRecord>> EtcdStore::Tenants() {
  std::vector<TenantRecord> tenants;
  for (const auto& [name, tenant] : image_.tenants) tenants.push_back(tenant);
  return tenants;
}

// --- Slices.

absl::Status EtcdStore::AddSlice(const SliceRecord& slice) {
  if (image_.slices.count(slice.name) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("there is a slice ", slice.name));
  }
  return PutSlice(slice);
}

absl::Status EtcdStore::PutSlice(const SliceRecord& slice) {
  Operations operations = {Put(kSlice, slice.name, EncodeSlice(slice))};
  const int64_t format = std::max(format_, FormatFor(slice.shape));
  if (format != format_) operations.push_back(Put(kFormat, "", absl::StrCat(format)));
  if (auto status = Change(operations); !status.ok()) return status;
  format_ = format;
  image_.slices[slice.name] = slice;
  return absl::OkStatus();
}

absl::Status EtcdStore::UpdateSlice(const SliceRecord& slice) {
  if (image_.slices.count(slice.name) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no slice ", slice.name));
  }
  return PutSlice(slice);
}

absl::Status EtcdStore::RemoveSlice(const std::string& name) {
  if (image_.slices.count(name) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no slice ", name));
  }
  if (auto status = Change({Delete(kSlice, name)}); !status.ok()) return status;
  image_.slices.erase(name);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SliceRecord>> EtcdStore::Slices() {
  std::vector<SliceRecord> slices;
  for (const auto& [name, slice] : image_.slices) slices.push_back(slice);
  return slices;
}

// --- Servers.

absl::Status EtcdStore::PutServer(const ServerRecord& server) {
  if (auto status = Change({Put(kServer, server.name, EncodeServer(server))}); !status.ok()) {
    return status;
  }
  image_.servers[server.name] = server;
  return absl::OkStatus();
}

absl::Status EtcdStore::ForgetServer(const std::string& name) {
  Operations operations = {Delete(kServer, name)};
  const bool comes_back = image_.credentials.count(name) != 0;
  if (!comes_back) operations.push_back(Delete(kAudit, name));
  if (auto status = Change(operations); !status.ok()) return status;
  image_.servers.erase(name);
  if (!comes_back) image_.audit_heads.erase(name);
  return absl::OkStatus();
}

absl::Status EtcdStore::RemoveServer(const std::string& name, const LeaseEnd& end) {
  if (image_.servers.count(name) == 0 && image_.credentials.count(name) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no server ", name));
  }
  const std::string mark = absl::StrCat(kOfServer, name);
  if (auto status = Change({Delete(kServer, name), Delete(kCredential, name), Delete(kAudit, name),
                            Delete(kCordon, name), Put(kMark, mark, EncodeEnd(end))});
      !status.ok()) {
    return status;
  }
  image_.servers.erase(name);
  image_.credentials.erase(name);
  image_.cordons.erase(name);
  image_.audit_heads.erase(name);
  marks_[mark] = end;
  ApplyMark(mark, end);
  (void)Settle();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ServerRecord>> EtcdStore::Servers() {
  std::vector<ServerRecord> servers;
  for (const auto& [name, server] : image_.servers) servers.push_back(server);
  return servers;
}

absl::Status EtcdStore::AddServerCredential(const std::string& server, const std::string& hash) {
  if (image_.credentials.count(server) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("server ", server, " has a credential"));
  }
  if (auto status = Change({Put(kCredential, server, EncodeCredential(hash))}); !status.ok()) {
    return status;
  }
  image_.credentials[server] = hash;
  return absl::OkStatus();
}

absl::Status EtcdStore::UpdateServerCredential(const std::string& server, const std::string& hash) {
  if (image_.credentials.count(server) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no server ", server, " with a credential"));
  }
  if (auto status = Change({Put(kCredential, server, EncodeCredential(hash))}); !status.ok()) {
    return status;
  }
  image_.credentials[server] = hash;
  return absl::OkStatus();
}

absl::StatusOr<std::string> EtcdStore::ServerCredential(const std::string& server) {
  const auto found = image_.credentials.find(server);
  return found == image_.credentials.end() ? std::string() : found->second;
}

absl::StatusOr<std::vector<std::string>> EtcdStore::ServersWithCredential() {
  std::vector<std::string> names;
  for (const auto& [name, hash] : image_.credentials) names.push_back(name);
  return names;
}

absl::Status EtcdStore::PutCordon(const CordonRecord& cordon) {
  if (auto status = Change({Put(kCordon, cordon.server, EncodeCordon(cordon))}); !status.ok()) {
    return status;
  }
  image_.cordons[cordon.server] = cordon;
  return absl::OkStatus();
}

absl::Status EtcdStore::RemoveCordon(const std::string& server) {
  if (image_.cordons.count(server) == 0) return absl::OkStatus();
  if (auto status = Change({Delete(kCordon, server)}); !status.ok()) return status;
  image_.cordons.erase(server);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CordonRecord>> EtcdStore::Cordons() {
  std::vector<CordonRecord> cordons;
  for (const auto& [server, cordon] : image_.cordons) cordons.push_back(cordon);
  return cordons;
}

absl::Status EtcdStore::PutOperatorHash(const std::string& hash) {
  if (auto status = Change({Put(kOperator, "", hash)}); !status.ok()) return status;
  image_.operator_hash = hash;
  return absl::OkStatus();
}

// --- Audits.

absl::Status EtcdStore::PutAuditHeads(const std::vector<AuditHead>& heads) {
  for (size_t done = 0; done < heads.size(); done += kMaxOperations) {
    const size_t end = std::min<size_t>(heads.size(), done + kMaxOperations);
    Operations operations;
    for (size_t i = done; i < end; ++i) {
      operations.push_back(Put(kAudit, heads[i].server, EncodeAuditHead(heads[i])));
    }
    if (auto status = Change(operations); !status.ok()) return status;
    for (size_t i = done; i < end; ++i) image_.audit_heads[heads[i].server] = heads[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AuditHead>> EtcdStore::AuditHeads() {
  std::vector<AuditHead> heads;
  for (const auto& [server, head] : image_.audit_heads) heads.push_back(head);
  return heads;
}

// --- Leases.

absl::Status EtcdStore::ExtendLeases(absl::Time now, absl::Duration ttl) {
  for (LeaseRecord& lease : image_.ActiveLeases()) {
    lease.expires = std::min(now + ttl, lease.ends);
    image_.PutLease(std::move(lease));
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::AddLease(const LeaseRecord& lease) {
  if (image_.FindLease(lease.id) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("there is a lease ", lease.id));
  }
  if (auto status = Change({Put(kLease, lease.id, EncodeLease(lease))}); !status.ok()) {
    return status;
  }
  image_.PutLease(lease);
  return absl::OkStatus();
}

absl::Status EtcdStore::UpdateLease(const LeaseRecord& lease) {
  const LeaseRecord* const known = image_.FindLease(lease.id);
  if (known == nullptr) return absl::NotFoundError(absl::StrCat("there is no lease ", lease.id));
  LeaseRecord changed = *known;
  changed.by_sessions = lease.by_sessions;
  changed.state = lease.state;
  changed.reason = lease.reason;
  changed.expires = lease.expires;
  if (auto status = Change({Put(kLease, lease.id, EncodeLease(changed))}); !status.ok()) {
    return status;
  }
  image_.PutLease(std::move(changed));
  return absl::OkStatus();
}

absl::Status EtcdStore::RemoveLease(const std::string& id) {
  if (image_.FindLease(id) == nullptr) return absl::OkStatus();
  if (auto status = Change({Delete(kLease, id)}); !status.ok()) return status;
  image_.RemoveLease(id);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeaseRecord>> EtcdStore::FindLease(const std::string& id) {
  const LeaseRecord* const lease = image_.FindLease(id);
  return lease == nullptr ? std::optional<LeaseRecord>() : *lease;
}

absl::StatusOr<std::vector<LeaseRecord>> EtcdStore::Leases() { return image_.Leases(); }

absl::StatusOr<std::vector<LeaseRecord>> EtcdStore::ActiveLeases() { return image_.ActiveLeases(); }

absl::StatusOr<std::vector<std::string>> EtcdStore::EndedLeases(const std::string& tenant) {
  auto ended = image_.LeasesWhere([&](const LeaseRecord& lease) {
    return lease.state != LeaseState::kActive && lease.tenant == tenant;
  });
  std::stable_sort(ended.begin(), ended.end(), [](const LeaseRecord& a, const LeaseRecord& b) {
    return a.expires < b.expires;
  });
  std::vector<std::string> ids;
  for (const LeaseRecord& lease : ended) ids.push_back(lease.id);
  return ids;
}

absl::StatusOr<std::vector<LeaseRecord>> EtcdStore::EndedLeasesOn(const std::string& server) {
  return image_.LeasesWhere([&](const LeaseRecord& lease) {
    return lease.state != LeaseState::kActive && lease.server == server;
  });
}

absl::StatusOr<std::vector<LeaseRecord>> EtcdStore::LeasesExpiredBy(absl::Time time) {
  return image_.LeasesWhere([&](const LeaseRecord& lease) { return lease.expires <= time; });
}

}  // namespace warpline::scheduler
