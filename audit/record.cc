#include "audit/record.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/text.h"

namespace warpline::audit {

const EventInfo kEvents[static_cast<size_t>(Event::kEventCount)] = {
    {Event::kBegan, "audit.began", Bound::kNone},
    {Event::kContinued, "audit.continued", Bound::kNone},
    {Event::kRecovered, "audit.recovered", Bound::kNone},
    {Event::kBroken, "audit.broken", Bound::kNone},
    {Event::kPruned, "audit.pruned", Bound::kNone},
    {Event::kLost, "audit.lost", Bound::kNone},
    {Event::kLeftOut, "audit.left_out", Bound::kNone},
    {Event::kServerStarted, "server.started", Bound::kNone},
    {Event::kServerStopped, "server.stopped", Bound::kNone},
    {Event::kSessionOpened, "session.opened", Bound::kSessions},
    // Written for every session whose opening is.
    {Event::kSessionClosed, "session.closed", Bound::kWithOpening},
    {Event::kSessionRefused, "session.refused", Bound::kRefusals},
    {Event::kSessionFaulted, "session.faulted", Bound::kWorkers},
    {Event::kSessionKilled, "session.killed", Bound::kWorkers},
    {Event::kModuleLoaded, "module.loaded", Bound::kModules},
    {Event::kMemoryShared, "memory.shared", Bound::kShares},
    {Event::kMemoryOpened, "memory.opened", Bound::kShares},
    {Event::kLeaseRevoked, "lease.revoked", Bound::kRevocations},
    {Event::kWorkerDied, "worker.died", Bound::kWorkers},
    {Event::kWorkerKilled, "worker.killed", Bound::kWorkers},
    {Event::kWorkerReplaced, "worker.replaced", Bound::kWorkers},
    {Event::kWorkerSuspended, "worker.suspended", Bound::kWorkers},
    // The budget is for those that are refused: see Record::done.
    {Event::kAdminReplace, "admin.replace", Bound::kAdminRefusals},
    {Event::kAdminPage, "admin.page", Bound::kAdminRefusals},
    {Event::kAdminUpgrade, "admin.upgrade", Bound::kAdminRefusals},
    {Event::kAdminCheckpoint, "admin.checkpoint", Bound::kAdminRefusals},
    {Event::kAdminPolicy, "admin.policy", Bound::kAdminRefusals},
    {Event::kPolicyFailed, "policy.failed", Bound::kPolicies},
    {Event::kPolicyNote, "policy.note", Bound::kPolicyNotes},
    {Event::kSchedulerStarted, "scheduler.started", Bound::kNone},
    {Event::kSchedulerStopped, "scheduler.stopped", Bound::kNone},
    {Event::kAdminTenant, "admin.tenant", Bound::kAdminRefusals},
    {Event::kAdminServer, "admin.server", Bound::kAdminRefusals},
    {Event::kAdminRevoke, "admin.revoke", Bound::kAdminRefusals},
    {Event::kAdminMove, "admin.move", Bound::kAdminRefusals},
    {Event::kAdminSlice, "admin.slice", Bound::kAdminRefusals},
    {Event::kCredentialRefused, "credential.refused", Bound::kCredentials},
};

const EventInfo& InfoOf(Event event) { return kEvents[static_cast<size_t>(event)]; }

Bound BoundOf(const Record& record) {
  return record.done ? Bound::kNone : InfoOf(record.event).bound;
}

std::string NoHash() { return HashText(ContentHash{}); }

std::string HashOf(absl::string_view line) {
  ContentHash hash = {};
  // Without OpenSSL's SHA-256 no hash is right, and the chain is found to be broken.
  if (!HashContent({line.data(), line.size()}, &hash)) return NoHash();
  return HashText(hash);
}

namespace {

constexpr char kTimeFormat[] = "%Y-%m-%d%ET%H:%M:%E6SZ";

// A text as JSON writes it, between quotes.
std::string JsonText(absl::string_view text) {
  const std::string fitted = FitText(text, kMaxText);
  std::string out = "\"";
  for (size_t i = 0; i < fitted.size(); ++i) {
    const auto c = static_cast<unsigned char>(fitted[i]);
    const bool has_next = i + 1 < fitted.size();
    if (c == '"' || c == '\\') {
      out += '\\';
      out += fitted[i];
    } else if (c < 0x20 || c == 0x7f) {
      absl::StrAppend(&out, "\\u", absl::Hex(c, absl::kZeroPad4));
    } else if (c == 0xc2 && has_next && static_cast<unsigned char>(fitted[i + 1]) < 0xa0) {
      // Control characters too, of two bytes.
      absl::StrAppend(&out, "\\u",
                      absl::Hex(static_cast<unsigned char>(fitted[++i]), absl::kZeroPad4));
    } else {
      out += fitted[i];
    }
  }
  return out + "\"";
}

// Reads what FormatLine() writes, one token after another.
class Cursor {
 public:
  explicit Cursor(absl::string_view text) : text_(text) {}

  bool Take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool AtEnd() const { return text_.empty(); }

  bool TakeNumber(std::string* digits) {
    size_t size = 0;
    while (size < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[size]))) {
      ++size;
    }
    *digits = std::string(text_.substr(0, size));
    text_.remove_prefix(size);
    uint64_t value = 0;
    return absl::SimpleAtoi(*digits, &value);
  }

  bool TakeText(std::string* out) {
    if (!Take('"')) return false;
    out->clear();
    while (!text_.empty()) {
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        *out += c;
      } else if (!TakeEscape(out)) {
        return false;
      }
    }
    return false;
  }

 private:
  bool TakeEscape(std::string* out) {
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    if (c == '"' || c == '\\') {
      *out += c;
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || text_.size() < 4 || !absl::SimpleHexAtoi(text_.substr(0, 4), &code) ||
        code >= 0xa0) {
      return false;
    }
    text_.remove_prefix(4);
    if (code < 0x80) {
      *out += static_cast<char>(code);
    } else {
      *out += '\xc2';
      *out += static_cast<char>(code);
    }
    return true;
  }

  absl::string_view text_;
};

bool IsHash(absl::string_view text) {
  ContentHash ignored;
  return ParseHash({text.data(), text.size()}, &ignored);
}

}  // namespace

std::string FormatRecordTime(absl::Time time) {
  return absl::FormatTime(kTimeFormat, time, absl::UTCTimeZone());
}

std::string FormatLine(const Record& record, uint64_t seq, absl::string_view prev) {
  std::string line = absl::StrCat("{\"seq\":", seq, ",\"time\":\"", FormatRecordTime(record.time),
                                  "\",\"event\":\"", InfoOf(record.event).name, "\"");
  const auto text = [&line](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&line, ",\"", name, "\":", JsonText(value));
  };
  text("tenant", record.tenant);
  text("lease", record.lease);
  if (record.session != 0) absl::StrAppend(&line, ",\"session\":", record.session);
  text("peer", record.peer);
  for (const auto& [name, value] : record.texts) text(name, value);
  for (const auto& [name, value] : record.numbers) {
    absl::StrAppend(&line, ",\"", name, "\":", value);
  }
  absl::StrAppend(&line, ",\"prev\":\"", prev, "\"}");
  return line;
}

std::string Line::Field(absl::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  return found == fields.end() ? "" : found->second;
}

absl::StatusOr<Line> ParseLine(absl::string_view text) {
  const auto wrong = [] { return absl::InvalidArgumentError("not a record"); };
  Cursor cursor(text);
  Line line;
  std::string name;
  std::string value;
  if (!cursor.Take('{')) return wrong();
  do {
    if (!cursor.TakeText(&name) || !cursor.Take(':')) return wrong();
    Cursor ahead = cursor;
    const bool number = !ahead.Take('"');
    if (number ? !cursor.TakeNumber(&value) : !cursor.TakeText(&value)) return wrong();
    if (number && name == "seq") {
      if (line.seq != 0 || !absl::SimpleAtoi(value, &line.seq)) return wrong();
    } else if (name == "time") {
      line.time = value;
    } else if (name == "event") {
      line.event = value;
    } else if (name == "prev") {
      line.prev = value;
    } else {
      line.fields.emplace_back(name, value);
    }
  } while (cursor.Take(','));
  if (!cursor.Take('}') || !cursor.AtEnd()) return wrong();
  if (line.seq == 0 || line.event.empty() || !IsHash(line.prev)) return wrong();
  return line;
}

std::string FormatAnchor(const Anchor& anchor) {
  return anchor.seq == 0 ? "" : absl::StrCat(anchor.seq, ":", anchor.hash);
}

absl::StatusOr<Anchor> ParseAnchor(absl::string_view text) {
  Anchor anchor;
  const size_t colon = text.find(':');
  const bool numbered = colon != absl::string_view::npos;
  anchor.hash = std::string(numbered ? text.substr(colon + 1) : text);
  if (!IsHash(anchor.hash) || (numbered && !absl::SimpleAtoi(text.substr(0, colon), &anchor.seq))) {
    return absl::InvalidArgumentError(
        "an anchor is NUMBER:HASH, or HASH alone, of 64 hexadecimal digits");
  }
  return anchor;
}

}  // namespace warpline::audit
