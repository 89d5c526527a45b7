#include "scheduler/audit_anchors.h"

#include <utility>

namespace warpline::scheduler {
namespace {

// None for what is no anchor.
audit::Anchor AnchorOf(const std::string& text) {
  return audit::ParseAnchor(text).value_or(audit::Anchor());
}

}  // namespace

void AuditAnchors::Restore(const Store& store) {
  for (const AuditHead& head : store.AuditHeads()) {
    all_[head.server] = {.head = AnchorOf(head.head), .lost = AnchorOf(head.lost)};
  }
}

std::optional<std::string> AuditAnchors::Note(const std::string& server, const std::string& head) {
  const audit::Anchor now = AnchorOf(head);
  const auto found = all_.find(server);
  if (found == all_.end()) {
    if (now.seq > 0) all_[server] = {.head = now, .lost = {}, .silent = false, .changed = true};
    return std::nullopt;
  }
  Known& known = found->second;
  const std::string had = audit::FormatAnchor(known.head);
  if (now.seq == 0) {
    // The anchor is still good for the record, should it come back.
    return std::exchange(known.silent, true) ? std::nullopt : std::optional<std::string>(had);
  }
  known.silent = false;
  if (now.seq == known.head.seq && now.hash == known.head.hash) return std::nullopt;
  const bool lost = now.seq <= known.head.seq;
  if (lost) {
    if (known.lost.seq < known.head.seq) known.lost = known.head;
    urgent_ = true;
  }
  known.head = now;
  known.changed = true;
  return lost ? std::optional<std::string>(had) : std::nullopt;
}

std::string AuditAnchors::HeadOf(const std::string& server) const {
  const auto found = all_.find(server);
  return found == all_.end() ? "" : audit::FormatAnchor(found->second.head);
}

std::string AuditAnchors::LostOf(const std::string& server) const {
  const auto found = all_.find(server);
  return found == all_.end() ? "" : audit::FormatAnchor(found->second.lost);
}

void AuditAnchors::AcceptLoss(const std::string& server) {
  const auto found = all_.find(server);
  if (found == all_.end() || found->second.lost.seq == 0) return;
  found->second.lost = {};
  found->second.changed = urgent_ = true;
}

absl::Status AuditAnchors::Write(Store* store, absl::Time now) {
  // A clock that was set back holds nothing up.
  if (!urgent_ && now >= written_ && now - written_ < kWriteInterval) return absl::OkStatus();
  written_ = now;
  return WriteAll(store);
}

absl::Status AuditAnchors::WriteAll(Store* store) {
  std::vector<AuditHead> changed;
  for (const auto& [server, known] : all_) {
    if (!known.changed) continue;
    changed.push_back({server, audit::FormatAnchor(known.head), audit::FormatAnchor(known.lost)});
  }
  if (changed.empty()) return absl::OkStatus();
  if (auto status = store->PutAuditHeads(changed); !status.ok()) return status;
  for (auto& [server, known] : all_) known.changed = false;
  urgent_ = false;
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
