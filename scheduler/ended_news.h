// Tells a server which of its leases have ended, in the answers to its reports: those that it
// reports, and, where their tokens may still be good, others.
#ifndef WARPLINE_SCHEDULER_ENDED_NEWS_H_
#define WARPLINE_SCHEDULER_ENDED_NEWS_H_

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lease/end_reason.h"
#include "proto/scheduler.pb.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

// An answer, and how much more it may hold. It is borrowed.
class ReportAnswer {
 public:
  explicit ReportAnswer(warpline_internal::ReportReply* reply);

  // These return false, and add nothing, where there is no room: it is told with the next answer.
  bool AddEnded(const std::string& lease, const EndReason& reason);
  bool AddEnding(const std::string& lease, const EndReason& reason, uint32_t ends_in_ms);
  bool AddMove(const warpline_internal::MoveOrder& order);

  // Returns whether this answer says that the lease has ended.
  bool Tells(const std::string& lease) const { return ended_.count(lease) > 0; }

 private:
  bool HasRoom(size_t bytes);

  warpline_internal::ReportReply* const reply_;
  std::set<std::string> ended_;
  size_t bytes_;
};

// Keeps track of the news that one server is still to be told. Thread-compatible.
class EndedNews {
 public:
  // The server is to be told of all its leases that have ended, once more.
  void TellAll() { again_ = true; }
  // Begins with all of them if that is due. `heard` says that the server has had the answer before.
  void NextAnswer(bool heard);
  // Returns whether Tell() has something to tell in this answer.
  bool telling() const { return after_.has_value(); }
  // Tells those of `ended` that have room in the answer; the others follow in the next answers.
  void Tell(std::vector<LeaseRecord> ended, ReportAnswer* answer);

  // Returns whether the latest answers that told all said that the lease has ended.
  bool WasTold(const std::string& lease) const { return told_.count(lease) > 0; }

 private:
  bool again_ = true;
  std::optional<std::string> after_;  // Those after this one are told next.
  std::set<std::string> told_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ENDED_NEWS_H_
