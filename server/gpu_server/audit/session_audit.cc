#include "server/gpu_server/audit/session_audit.h"

#include <utility>

namespace warpline::server {
namespace {

using audit::Event;
using audit::Record;

enum OwnKind : size_t { kModules, kShares, kOwnKindCount };
constexpr LogKind kOwn[kOwnKindCount] = {{"modules", 1024, absl::Minutes(1)},
                                         {"shares", 256, absl::Minutes(1)}};
constexpr size_t kOfferDigits = 16;
// Beyond them an image may be recorded again, if there is budget for it.
constexpr size_t kMostKnownModules = 4096;

}  // namespace

SessionAudit::SessionAudit(audit::AuditLog* log, uint64_t session, std::string peer)
    : log_(log), session_(session), peer_(std::move(peer)), own_(kOwn, "audit") {}

void SessionAudit::SetEntitlement(const Entitlement& entitlement) {
  tenant_ = entitlement.tenant;
  lease_ = entitlement.lease;
}

Record SessionAudit::NewRecord(Event event) const {
  return {.event = event, .tenant = tenant_, .lease = lease_, .session = session_, .peer = peer_};
}

bool SessionAudit::AddBounded(size_t kind, Record record) {
  const LogPermit permit = own_.Ask(kind);
  if (!permit) return false;
  if (permit.left_out() > 0) record.numbers.emplace_back("left_out", permit.left_out());
  // What it said of others that were left out is not said either.
  const bool added = log_->Add(std::move(record));
  if (!added) own_.AddLeftOut(kind, permit.left_out());
  return added;
}

void SessionAudit::Opened(const Opening& opening) {
  if (log_ == nullptr) return;
  Record record = NewRecord(Event::kSessionOpened);
  record.texts = {{"program", opening.program}, {"devices", opening.devices}};
  record.numbers = {{"client_pid", opening.client_pid},
                    {"worker_pid", static_cast<uint64_t>(opening.worker_pid)},
                    {"quota_bytes", opening.quota_bytes}};
  opened_ = log_->Add(std::move(record));
}

void SessionAudit::Closed(const std::string& reason, uint64_t commands,
                          uint64_t neighbour_pointers) {
  const uint64_t modules = own_.TakeLeftOut(kModules);
  const uint64_t shares = own_.TakeLeftOut(kShares);
  // What was not said to be open is counted where that is.
  if (log_ == nullptr || !opened_) return;
  Record record = NewRecord(Event::kSessionClosed);
  record.texts = {{"reason", reason}};
  record.numbers = {{"commands", commands}};
  if (repeated_modules_ > 0) record.numbers.emplace_back("modules_repeated", repeated_modules_);
  if (modules > 0) record.numbers.emplace_back("modules_left_out", modules);
  if (shares > 0) record.numbers.emplace_back("shares_left_out", shares);
  if (neighbour_pointers > 0) {
    record.numbers.emplace_back("neighbour_pointers", neighbour_pointers);
  }
  log_->Add(std::move(record));
}

void SessionAudit::Refused(const std::string& reason) {
  if (log_ == nullptr) return;
  Record record = NewRecord(Event::kSessionRefused);
  record.texts = {{"reason", reason}};
  log_->Add(std::move(record));
}

void SessionAudit::Faulted(const std::string& reason) {
  if (log_ == nullptr) return;
  Record record = NewRecord(Event::kSessionFaulted);
  record.texts = {{"reason", reason}};
  log_->Add(std::move(record));
}

void SessionAudit::Killed(const std::string& reason, const std::string& urgent) {
  if (log_ == nullptr) return;
  Record record = NewRecord(Event::kSessionKilled);
  record.texts = {{"reason", reason}, {"urgent", urgent}};
  log_->Add(std::move(record));
}

void SessionAudit::Revoked(const std::string& reason) {
  if (log_ == nullptr || std::exchange(revoked_, true)) return;
  Record record = NewRecord(Event::kLeaseRevoked);
  record.texts = {{"reason", reason}};
  log_->Add(std::move(record));
}

void SessionAudit::ModuleLoaded(const absl::StatusOr<ContentHash>& hash, uint64_t bytes,
                                const char* from) {
  if (log_ == nullptr) return;
  if (hash.ok() && modules_.contains(*hash)) {
    ++repeated_modules_;
    return;
  }
  Record record = NewRecord(Event::kModuleLoaded);
  if (hash.ok()) {
    record.texts = {{"sha256", HashText(*hash)}};
  } else {
    record.texts = {{"reason", std::string(hash.status().message())}};
  }
  record.texts.emplace_back("from", from);
  record.numbers = {{"bytes", bytes}};
  const bool added = AddBounded(kModules, std::move(record));
  if (added && hash.ok() && modules_.size() < kMostKnownModules) modules_.insert(*hash);
}

void SessionAudit::Shared(Event event, const std::string& token, uint64_t bytes,
                          const std::string& device) {
  if (log_ == nullptr) return;
  Record record = NewRecord(event);
  ContentHash hash = {};
  if (HashContent(token, &hash)) {
    record.texts.emplace_back("offer", HashText(hash).substr(0, kOfferDigits));
  }
  record.texts.emplace_back("device", device);
  record.numbers = {{"bytes", bytes}};
  AddBounded(kShares, std::move(record));
}

void SessionAudit::Worker(Event event, const std::string& reason, int pid) {
  if (log_ == nullptr) return;
  Record record = NewRecord(event);
  record.texts = {{"reason", reason}};
  record.numbers = {{"pid", static_cast<uint64_t>(pid)}};
  log_->Add(std::move(record));
}

}  // namespace warpline::server
