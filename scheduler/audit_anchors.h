// The ends of servers' audits as the servers last said them, by which their operator can tell later
// that a record was cut off or written anew. They are kept in the store, so that neither a restart
// of the scheduler nor a server's long silence forgets them.
#ifndef WARPLINE_SCHEDULER_AUDIT_ANCHORS_H_
#define WARPLINE_SCHEDULER_AUDIT_ANCHORS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "audit/record.h"
#include "scheduler/records.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {

// Thread-compatible.
class AuditAnchors {
 public:
  // What moves on is written this often: heads move with every session, and each write waits for
  // the disk. What a server lost is written at once.
  static constexpr absl::Duration kWriteInterval = absl::Seconds(10);

  // Reads what the store has. Called once, before anything else.
  void Restore(const Store& store);

  // Takes the head that a server reports, which may be anything. Returns the anchor that it had
  // when the record has fewer lines than that or another one in its place, which is remembered as
  // lost; or when there is no record any more, which is said once.
  std::optional<std::string> Note(const std::string& server, const std::string& head);

  // In the form of FormatAnchor(); empty where there is none. Lost is the one of most lines that
  // the server had and had no more later.
  std::string HeadOf(const std::string& server) const;
  std::string LostOf(const std::string& server) const;
  // The operator takes the record as it is now.
  void AcceptLoss(const std::string& server);
  void Forget(const std::string& server) { all_.erase(server); }

  // Writes what has changed, if it is due at `now`.
  absl::Status Write(Store* store, absl::Time now);
  absl::Status WriteAll(Store* store);

 private:
  struct Known {
    audit::Anchor head;
    audit::Anchor lost;
    bool silent = false;  // Its server has said since that it has no record.
    bool changed = false;
  };

  std::map<std::string, Known> all_;
  absl::Time written_ = absl::InfinitePast();
  bool urgent_ = false;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_AUDIT_ANCHORS_H_
