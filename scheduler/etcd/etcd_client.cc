#include "scheduler/etcd/etcd_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"

namespace warpline::scheduler {
namespace {

using warpline_etcd::LeaseGrantRequest;
using warpline_etcd::LeaseGrantResponse;
using warpline_etcd::LeaseKeepAliveResponse;
using warpline_etcd::LeaseRequest;
using warpline_etcd::RangeRequest;
using warpline_etcd::RangeResponse;
using warpline_etcd::TxnRequest;
using warpline_etcd::TxnResponse;

constexpr char kRange[] = "/etcdserverpb.KV/Range";
constexpr char kTxn[] = "/etcdserverpb.KV/Txn";
constexpr char kGrant[] = "/etcdserverpb.Lease/LeaseGrant";
constexpr char kRevoke[] = "/etcdserverpb.Lease/LeaseRevoke";
// A stream in both directions, of which one message each way is all that we want: on the wire that
// is a unary call.
constexpr char kKeepAlive[] = "/etcdserverpb.Lease/LeaseKeepAlive";

}  // namespace

bool MayHaveHappened(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return false;
    default:
      return !error.ok();
  }
}

std::string EndOfPrefix(absl::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  // A zero byte stands for the end of all keys.
  if (end.empty()) return std::string(1, '\0');
  ++end.back();
  return end;
}

EtcdClient::EtcdClient(EtcdClientOptions options) : options_(std::move(options)) {
  for (const GrpcTarget& member : options_.members) {
    absl::StrAppend(&name_, name_.empty() ? "" : ",", member.address);
    members_.push_back(std::make_unique<UnaryConnection>(member));
  }
}

absl::StatusOr<std::string> EtcdClient::Call(const char* method, const std::string& request,
                                             Harm harm) {
  if (options_.answer) return options_.answer(method, request);
  const absl::Time until = SteadyNow() + options_.deadline;
  absl::Status last = absl::UnavailableError("no member of etcd is named");
  for (size_t tries = 0; tries < 2 * members_.size(); ++tries) {
    const absl::Duration left = until - SteadyNow();
    if (left <= absl::ZeroDuration()) break;
    const size_t index = current_.load() % members_.size();
    UnaryConnection& member = *members_[index];
    auto answer =
        member.Call(method, request, harm == Harm::kNone ? std::min(left, options_.attempt) : left);
    if (answer.ok() || !MayHaveHappened(answer.status())) return answer;
    last = absl::Status(answer.status().code(), absl::StrCat("etcd at ", member.address(), ": ",
                                                             answer.status().message()));
    // Others may have moved on already.
    size_t expected = index;
    current_.compare_exchange_strong(expected, (index + 1) % members_.size());
    if (harm == Harm::kIfTwice) break;
  }
  return last;
}

template <typename Reply, typename Request>
absl::StatusOr<Reply> EtcdClient::CallFor(const char* method, const Request& request, Harm harm) {
  const auto bytes = Call(method, request.SerializeAsString(), harm);
  if (!bytes.ok()) return bytes.status();
  Reply reply;
  if (!reply.ParseFromString(*bytes)) {
    return absl::InternalError("etcd sent an answer that does not parse");
  }
  return reply;
}

absl::StatusOr<RangeResponse> EtcdClient::Range(const RangeRequest& request) {
  return CallFor<RangeResponse>(kRange, request, Harm::kNone);
}

absl::StatusOr<TxnResponse> EtcdClient::Commit(const TxnRequest& request) {
  return CallFor<TxnResponse>(kTxn, request, Harm::kIfTwice);
}

absl::StatusOr<TxnResponse> EtcdClient::Look(const TxnRequest& request) {
  return CallFor<TxnResponse>(kTxn, request, Harm::kNone);
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(absl::Duration ttl) {
  LeaseGrantRequest request;
  request.set_ttl_seconds(
      std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1)))));
  // One that was granted twice ends by itself.
  const auto reply = CallFor<LeaseGrantResponse>(kGrant, request, Harm::kNone);
  if (!reply.ok()) return reply.status();
  if (!reply->error().empty() || reply->id() == 0) {
    return absl::UnavailableError("etcd grants no lease");
  }
  return reply->id();
}

absl::StatusOr<absl::Duration> EtcdClient::KeepLeaseAlive(int64_t lease) {
  LeaseRequest request;
  request.set_id(lease);
  const auto reply = CallFor<LeaseKeepAliveResponse>(kKeepAlive, request, Harm::kNone);
  if (!reply.ok()) {
    if (absl::IsNotFound(reply.status())) return absl::ZeroDuration();
    return reply.status();
  }
  return absl::Seconds(std::max<int64_t>(0, reply->ttl_seconds()));
}

absl::Status EtcdClient::RevokeLease(int64_t lease) {
  LeaseRequest request;
  request.set_id(lease);
  const auto done = Call(kRevoke, request.SerializeAsString(), Harm::kNone);
  return done.ok() || absl::IsNotFound(done.status()) ? absl::OkStatus() : done.status();
}

}  // namespace warpline::scheduler
