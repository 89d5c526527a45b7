#include "scheduler/state/state_contents.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/etcd/etcd_records.h"

namespace warpline::scheduler {
namespace {

// Takes what `read` returns, unless an earlier one failed.
template <typename Value>
void Take(absl::StatusOr<Value> read, Value* to, absl::Status* status) {
  if (!status->ok()) return;
  if (read.ok()) {
    *to = *std::move(read);
  } else {
    *status = read.status();
  }
}

// Every record, by its kind and name, as it would stand in etcd.
std::map<std::string, std::string> Lines(const StateContents& contents) {
  std::map<std::string, std::string> lines;
  const auto add = [&lines](const char* kind, const std::string& name, std::string value) {
    lines[absl::StrCat(kind, "/", name)] = std::move(value);
  };
  for (const auto& it : contents.tenants) add("tenants", it.name, EncodeTenant(it));
  for (const auto& it : contents.slices) add("slices", it.name, EncodeSlice(it));
  for (const auto& it : contents.servers) add("servers", it.name, EncodeServer(it));
  for (const auto& [server, hash] : contents.credentials) add("credentials", server, hash);
  for (const auto& it : contents.cordons) add("cordons", it.server, EncodeCordon(it));
  for (const auto& it : contents.audit_heads) add("audits", it.server, EncodeAuditHead(it));
  for (const auto& it : contents.leases) add("leases", it.id, EncodeLease(it));
  return lines;
}

}  // namespace

absl::StatusOr<StateContents> ReadState(Store* store) {
  StateContents contents;
  absl::Status status;
  Take(store->Tenants(), &contents.tenants, &status);
  Take(store->Slices(), &contents.slices, &status);
  Take(store->Servers(), &contents.servers, &status);
  Take(store->Cordons(), &contents.cordons, &status);
  Take(store->AuditHeads(), &contents.audit_heads, &status);
  Take(store->Leases(), &contents.leases, &status);
  std::vector<std::string> with_credential;
  Take(store->ServersWithCredential(), &with_credential, &status);
  for (const std::string& server : with_credential) {
    Take(store->ServerCredential(server), &contents.credentials[server], &status);
  }
  if (!status.ok()) return store->Explain(status);
  return contents;
}

absl::Status WriteState(const StateContents& contents, Store* store,
                        const std::function<absl::Status()>& between) {
  absl::Status status;
  const auto write = [&](const auto& records, const auto& add) {
    for (const auto& record : records) {
      if (status.ok()) status = add(record);
      if (status.ok()) status = between();
    }
  };
  write(contents.tenants, [&](const TenantRecord& it) { return store->AddTenant(it); });
  write(contents.slices, [&](const SliceRecord& it) { return store->AddSlice(it); });
  write(contents.servers, [&](const ServerRecord& it) { return store->PutServer(it); });
  write(contents.credentials,
        [&](const auto& it) { return store->AddServerCredential(it.first, it.second); });
  write(contents.cordons, [&](const CordonRecord& it) { return store->PutCordon(it); });
  write(contents.audit_heads, [&](const AuditHead& it) { return store->PutAuditHeads({it}); });
  write(contents.leases, [&](const LeaseRecord& it) { return store->AddLease(it); });
  return status.ok() ? status : store->Explain(status);
}

std::string FirstDifference(const StateContents& a, const StateContents& b) {
  const auto left = Lines(a);
  const auto right = Lines(b);
  for (const auto& [name, value] : left) {
    const auto found = right.find(name);
    if (found == right.end() || found->second != value) return name;
  }
  for (const auto& [name, value] : right) {
    if (left.count(name) == 0) return name;
  }
  return "";
}

std::string Summary(const StateContents& contents) {
  return absl::StrCat(contents.tenants.size(), " tenants, ", contents.slices.size(), " slices, ",
                      contents.servers.size(), " servers, ", contents.credentials.size(),
                      " credentials of servers, ", contents.cordons.size(), " cordons, ",
                      contents.audit_heads.size(), " ends of audits, ", contents.leases.size(),
                      " leases");
}

}  // namespace warpline::scheduler
