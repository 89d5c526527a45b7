#include "scheduler/etcd/testing/fake_etcd.h"

namespace warpline::scheduler {

using warpline_etcd::Compare;
using warpline_etcd::KeyValue;
using warpline_etcd::Operation;
using warpline_etcd::RangeRequest;
using warpline_etcd::RangeResponse;
using warpline_etcd::TxnRequest;
using warpline_etcd::TxnResponse;

namespace {

// Whether `key` is among those that a request with this key and end is about.
bool IsAmong(const std::string& key, const std::string& begin, const std::string& end) {
  if (end.empty()) return key == begin;
  return key >= begin && (end == std::string(1, '\0') || key < end);
}

}  // namespace

absl::StatusOr<std::string> FakeEtcd::Answer(const std::string& method,
                                             const std::string& request) {
  const bool range = method == "/etcdserverpb.KV/Range";
  if (!range && method != "/etcdserverpb.KV/Txn") return absl::UnimplementedError(method);
  if (mood_ == Mood::kRefuses) return absl::UnavailableError("no member answers");
  if (mood_ == Mood::kFull && !range)
    return absl::ResourceExhaustedError("database space exceeded");
  std::string answer;
  if (range) {
    RangeRequest wanted;
    if (!wanted.ParseFromString(request)) return absl::InvalidArgumentError("malformed");
    answer = Range(wanted).SerializeAsString();
  } else {
    TxnRequest wanted;
    if (!wanted.ParseFromString(request)) return absl::InvalidArgumentError("malformed");
    if (mood_ == Mood::kDelays) {
      delayed_.push_back(wanted);
    } else {
      answer = Commit(wanted).SerializeAsString();
    }
  }
  if (mood_ == Mood::kLoses || mood_ == Mood::kDelays)
    return absl::DeadlineExceededError("no answer came");
  return answer;
}

void FakeEtcd::FinishDelayed() {
  for (const TxnRequest& request : delayed_) Commit(request);
  delayed_.clear();
}

RangeResponse FakeEtcd::Range(const RangeRequest& request) const {
  RangeResponse response;
  response.mutable_header()->set_revision(revision_);
  for (const auto& [key, entry] : entries_) {
    if (!IsAmong(key, request.key(), request.range_end())) continue;
    if (request.limit() > 0 && response.kvs_size() == request.limit()) {
      response.set_more(true);
      break;
    }
    *response.add_kvs() = entry;
  }
  return response;
}

bool FakeEtcd::Holds(const Compare& compare) const {
  const auto found = entries_.find(compare.key());
  const KeyValue entry = found == entries_.end() ? KeyValue() : found->second;
  switch (compare.target()) {
    case Compare::CREATE:
      return entry.create_revision() == compare.create_revision();
    case Compare::MOD:
      return entry.mod_revision() == compare.mod_revision();
    default:
      return (entry.create_revision() == 0) == (compare.version() == 0);
  }
}

TxnResponse FakeEtcd::Commit(const TxnRequest& request) {
  TxnResponse response;
  bool succeeded = true;
  for (const Compare& compare : request.compare()) succeeded = succeeded && Holds(compare);
  response.set_succeeded(succeeded);
  const auto& operations = succeeded ? request.success() : request.failure();
  bool changes = false;
  for (const Operation& operation : operations) changes |= !operation.has_request_range();
  if (changes) ++revision_;
  for (const Operation& operation : operations) {
    auto* const result = response.add_responses();
    if (operation.has_request_range()) {
      *result->mutable_response_range() = Range(operation.request_range());
    } else if (operation.has_request_put()) {
      KeyValue& entry = entries_[operation.request_put().key()];
      if (entry.create_revision() == 0) entry.set_create_revision(revision_);
      entry.set_key(operation.request_put().key());
      entry.set_value(operation.request_put().value());
      entry.set_mod_revision(revision_);
    } else {
      const auto& gone = operation.request_delete_range();
      std::erase_if(entries_, [&](const auto& entry) {
        return IsAmong(entry.first, gone.key(), gone.range_end());
      });
    }
  }
  response.mutable_header()->set_revision(revision_);
  return response;
}

}  // namespace warpline::scheduler
