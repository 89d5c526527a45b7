#include "scheduler/etcd/etcd_key_value_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "scheduler/etcd/etcd.pb.h"

namespace warpline::scheduler {
namespace {

using warpline_etcd::Compare;
using warpline_etcd::RangeRequest;
using warpline_etcd::TxnRequest;

constexpr int64_t kPage = 256;

absl::Status AnotherLeads() { return absl::FailedPreconditionError("another scheduler leads"); }

absl::Status Failed(const absl::Status& error) {
  return absl::UnavailableError(absl::StrCat("the state: ", error.message()));
}

Compare GuardedBy(const EtcdGuard& guard) {
  Compare compare;
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(guard.key);
  compare.set_create_revision(guard.create_revision);
  return compare;
}

}  // namespace

EtcdKeyValueStore::EtcdKeyValueStore(EtcdClient* client, std::string prefix, EtcdGuard guard,
                                     std::function<void(const std::string& why)> on_lost)
    : client_(client),
      prefix_(std::move(prefix)),
      guard_(std::move(guard)),
      on_lost_(std::move(on_lost)) {}

EtcdKeyValueStore::EtcdKeyValueStore(EtcdClient* client, std::string prefix)
    : client_(client), prefix_(std::move(prefix)), lost_(true) {}

std::string EtcdKeyValueStore::name() const {
  return absl::StrCat(prefix_, " in etcd at ", client_->name());
}

absl::Status EtcdKeyValueStore::Explain(const absl::Status& error) const {
  return absl::Status(error.code(),
                      absl::StrCat("the state under ", name(), ": ", error.message()));
}

absl::StatusOr<std::optional<std::string>> EtcdKeyValueStore::Get(const std::string& key) {
  RangeRequest request;
  request.set_key(prefix_ + key);
  const auto found = client_->Range(request);
  if (!found.ok()) return found.status();
  if (found->kvs().empty()) return std::nullopt;
  return found->kvs(0).value();
}

absl::Status EtcdKeyValueStore::ForEach(const Visitor& visit) {
  RangeRequest request;
  request.set_key(prefix_);
  request.set_range_end(EndOfPrefix(prefix_));
  request.set_limit(kPage);
  while (true) {
    const auto page = client_->Range(request);
    if (absl::IsResourceExhausted(page.status()) && request.limit() > 1) {
      // The values are long ones.
      request.set_limit(request.limit() / 4);
      continue;
    }
    if (!page.ok()) return page.status();
    for (const auto& entry : page->kvs()) {
      absl::string_view key = entry.key();
      if (!absl::ConsumePrefix(&key, prefix_)) {
        return absl::DataLossError("etcd sent keys that were not asked for");
      }
      if (key == kLeaderKey) continue;
      if (auto status = visit(key, entry.value()); !status.ok()) return status;
    }
    if (!page->more() || page->kvs().empty()) return absl::OkStatus();
    // All pages are of one moment.
    request.set_revision(page->header().revision());
    request.set_key(absl::StrCat(page->kvs(page->kvs_size() - 1).key(), std::string(1, '\0')));
  }
}

absl::Status EtcdKeyValueStore::Lose(const std::string& why) {
  if (!lost_ && on_lost_) on_lost_(why);
  lost_ = true;
  return AnotherLeads();
}

absl::Status EtcdKeyValueStore::Write(const WriteBatch& batch) {
  if (auto status = CheckBatch(batch); !status.ok()) return status;
  if (lost_) return AnotherLeads();
  TxnRequest transaction;
  *transaction.add_compare() = GuardedBy(guard_);
  for (const auto& [key, value] : batch.puts) {
    auto* const put = transaction.add_success()->mutable_request_put();
    put->set_key(prefix_ + key);
    put->set_value(value);
  }
  for (const std::string& key : batch.deletes) {
    transaction.add_success()->mutable_request_delete_range()->set_key(prefix_ + key);
  }
  const auto reply = client_->Commit(transaction);
  if (!reply.ok()) {
    if (MayHaveHappened(reply.status())) {
      (void)Lose(
          absl::StrCat("it is not known whether a change was made: ", reply.status().message()));
    }
    return Failed(reply.status());
  }
  if (!reply->succeeded()) return Lose("another scheduler leads");
  ++confirmations_;
  return absl::OkStatus();
}

absl::Status EtcdKeyValueStore::ConfirmSince(uint64_t mark) {
  if (lost_) return AnotherLeads();
  if (confirmations_ > mark) return absl::OkStatus();
  TxnRequest look;
  *look.add_compare() = GuardedBy(guard_);
  // Without something to read, etcd would answer without asking a majority.
  look.add_success()->mutable_request_range()->set_key(guard_.key);
  look.add_failure()->mutable_request_range()->set_key(guard_.key);
  const auto reply = client_->Look(look);
  if (!reply.ok()) return Failed(reply.status());
  if (!reply->succeeded()) return Lose("another scheduler leads");
  ++confirmations_;
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
