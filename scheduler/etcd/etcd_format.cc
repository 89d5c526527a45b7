// The format of the state in etcd: what EtcdStore does about it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/etcd/etcd_keys.h"
#include "scheduler/etcd/etcd_records.h"
#include "scheduler/etcd/etcd_store.h"

namespace warpline::scheduler {

using warpline_etcd::Operation;

namespace {

// A string after `key` before which there is no other key.
std::string After(const std::string& key) { return key + std::string(1, '\0'); }

Operation DeleteRange(const std::string& begin, const std::string& end) {
  Operation operation;
  operation.mutable_request_delete_range()->set_key(begin);
  operation.mutable_request_delete_range()->set_range_end(end);
  return operation;
}

bool HasReservation(const LeaseRecord& lease) { return lease.slice.shape.period_ms != 0; }

absl::Status FillingHasNotEnded() {
  return absl::FailedPreconditionError(
      "a copy into it has not ended: run `warpline-scheduler state copy` again, which begins anew");
}

}  // namespace

absl::Status EtcdStore::CheckFormat() {
  if (format_ == kFillingEtcdFormat) return FillingHasNotEnded();
  if (format_ > kEtcdFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is of format ", format_, ", and this scheduler knows formats up to ", kEtcdFormat,
        ": start a scheduler of the version that wrote it; or have one write format ", kEtcdFormat,
        " (`warpline-scheduler state back --state_version=", kEtcdFormat,
        "`, with all schedulers stopped)"));
  }
  if (format_ != 0 || lost_) return absl::OkStatus();
  format_ = kFirstEtcdFormat;
  return Commit({Put(etcd_keys::kFormat, "", absl::StrCat(format_))});
}

absl::Status EtcdStore::CommitAll(const Operations& operations, const Operation& last) {
  Operations batch;
  for (const Operation& operation : operations) {
    batch.push_back(operation);
    if (batch.size() < kMaxOperations) continue;
    if (auto status = Commit(batch); !status.ok()) return status;
    batch.clear();
  }
  batch.push_back(last);
  return Commit(batch);
}

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::OpenToFill(EtcdClient* client,
                                                                 const std::string& prefix,
                                                                 const EtcdGuard& guard) {
  auto store = std::unique_ptr<EtcdStore>(new EtcdStore(client, prefix, guard, nullptr));
  // Asks for two keys only: the leader's, and any other.
  warpline_etcd::RangeRequest look;
  look.set_key(prefix);
  look.set_range_end(EndOfPrefix(prefix));
  look.set_limit(2);
  const auto found = client->Range(look);
  if (!found.ok()) return store->Explain(found.status());
  const bool empty = std::all_of(found->kvs().begin(), found->kvs().end(),
                                 [&](const auto& entry) { return entry.key() == guard.key; });
  if (!empty) {
    warpline_etcd::RangeRequest ask;
    ask.set_key(store->Key(etcd_keys::kFormat, ""));
    const auto stands = client->Range(ask);
    if (!stands.ok()) return store->Explain(stands.status());
    if (stands->kvs_size() != 1 || stands->kvs(0).value() != absl::StrCat(kFillingEtcdFormat)) {
      return store->Explain(absl::FailedPreconditionError(
          "there is a state already, which is not overwritten: name another --etcd_prefix, or "
          "remove its keys with etcdctl"));
    }
  }
  // A key that is put may not lie in a range that is deleted.
  const std::string format = store->Key(etcd_keys::kFormat, "");
  const absl::Status status =
      store->Commit({DeleteRange(prefix, format), DeleteRange(After(format), guard.key),
                     DeleteRange(After(guard.key), EndOfPrefix(prefix)),
                     store->Put(etcd_keys::kFormat, "", absl::StrCat(kFillingEtcdFormat))});
  if (!status.ok()) return store->Explain(status);
  store->format_ = kFillingEtcdFormat;
  return store;
}

absl::Status EtcdStore::FinishFilling() {
  if (format_ != kFillingEtcdFormat) return absl::FailedPreconditionError("it is not being filled");
  // The least that has a place for everything; leases of a slice that has gone count as well.
  int64_t format = kFirstEtcdFormat;
  while (format < kEtcdFormat && !LostInFormat(format).empty()) ++format;
  const absl::Status status = Change({Put(etcd_keys::kFormat, "", absl::StrCat(format))});
  if (status.ok()) format_ = format;
  return status;
}

std::vector<std::string> EtcdStore::LostInFormat(int64_t format) const {
  std::vector<std::string> lost;
  if (format >= kReservationsEtcdFormat) return lost;
  const auto note = [&](size_t count, const char* what) {
    if (count > 0) lost.push_back(absl::StrCat(count, " ", what));
  };
  size_t slices = 0;
  for (const auto& [name, slice] : image_.slices) slices += slice.shape.period_ms == 0 ? 0 : 1;
  note(slices, "slices with a reservation");
  note(image_.LeasesWhere(&HasReservation).size(), "leases with a reservation");
  if (format >= kSlicesEtcdFormat) return lost;
  note(image_.slices.size(), "slices");
  size_t tenants = 0;
  for (const auto& [name, tenant] : image_.tenants) tenants += tenant.slices.empty() ? 0 : 1;
  note(tenants, "tenants with slices");
  note(
      image_.LeasesWhere([](const LeaseRecord& lease) { return !lease.slice.name.empty(); }).size(),
      "leases that are of a slice");
  return lost;
}

EtcdStore::Operations EtcdStore::DropSlices() {
  Operations operations;
  for (LeaseRecord lease :
       image_.LeasesWhere([](const LeaseRecord& lease) { return !lease.slice.name.empty(); })) {
    lease.slice = {};
    operations.push_back(Put(etcd_keys::kLease, lease.id, EncodeLease(lease)));
    image_.PutLease(std::move(lease));
  }
  for (auto& [name, tenant] : image_.tenants) {
    if (tenant.slices.empty()) continue;
    tenant.slices.clear();
    operations.push_back(Put(etcd_keys::kTenant, name, EncodeTenant(tenant)));
  }
  for (const auto& [name, slice] : image_.slices) {
    operations.push_back(Delete(etcd_keys::kSlice, name));
  }
  image_.slices.clear();
  return operations;
}

EtcdStore::Operations EtcdStore::DropReservations() {
  Operations operations;
  const auto drop = [](SliceShape* shape) {
    shape->period_ms = 0;
    shape->budget_ms = 0;
  };
  for (LeaseRecord lease : image_.LeasesWhere(&HasReservation)) {
    drop(&lease.slice.shape);
    operations.push_back(Put(etcd_keys::kLease, lease.id, EncodeLease(lease)));
    image_.PutLease(std::move(lease));
  }
  for (auto& [name, slice] : image_.slices) {
    if (slice.shape.period_ms == 0) continue;
    drop(&slice.shape);
    operations.push_back(Put(etcd_keys::kSlice, name, EncodeSlice(slice)));
  }
  return operations;
}

absl::Status EtcdStore::BackToFormat(int64_t format) {
  if (format < kFirstEtcdFormat || format > format_) {
    return absl::InvalidArgumentError(absl::StrCat("the state is of format ", format_,
                                                   ": it can go back to formats from ",
                                                   kFirstEtcdFormat, " to that"));
  }
  if (format == format_) return absl::OkStatus();
  if (auto status = Settle(); !status.ok()) return status;
  // Each format that something is dropped for has a part here.
  Operations operations;
  if (format < kSlicesEtcdFormat) {
    operations = DropSlices();
  } else if (format < kReservationsEtcdFormat) {
    operations = DropReservations();
  }
  const absl::Status status =
      CommitAll(operations, Put(etcd_keys::kFormat, "", absl::StrCat(format)));
  if (status.ok()) {
    format_ = format;
  } else {
    // What is in memory is not what is in etcd.
    (void)Lose(std::string(status.message()));
  }
  return status;
}

}  // namespace warpline::scheduler
