#include "tools/cli/process_family.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/process_status.h"

namespace warpline::cli {
namespace {

struct Process {
  FamilyMember self;
  pid_t parent = 0;
};

// Returns false when it has ended.
bool ReadProcess(pid_t pid, Process* process) {
  auto status = ReadProcessStatus(pid);
  if (!status.has_value()) return false;
  process->self.pid = pid;
  process->self.name = std::move(status->name);
  process->self.started = status->started;
  process->parent = status->parent;
  // The state is that of the main thread, which may have ended before others.
  return status->state != 'X' && (status->state != 'Z' || status->threads > 1);
}

using Ids = std::set<std::pair<pid_t, uint64_t>>;  // Numbers and starts.

Ids IdsOf(const std::vector<FamilyMember>& members) {
  Ids ids;
  for (const FamilyMember& member : members) ids.insert({member.pid, member.started});
  return ids;
}

bool IsIn(const Ids& ids, const Process& process) {
  return ids.count({process.self.pid, process.self.started}) != 0;
}

std::vector<Process> RunningProcesses() {
  std::vector<Process> running;
  for (const pid_t pid : AllProcesses()) {
    Process process;
    if (ReadProcess(pid, &process)) running.push_back(std::move(process));
  }
  return running;
}

// Those that `is_member` names, and their descendants.
std::vector<FamilyMember> Gather(const std::vector<Process>& running,
                                 const std::function<bool(const Process&)>& is_member) {
  std::vector<FamilyMember> members;
  std::set<pid_t> known;
  // A child may have a smaller number than its parent.
  for (bool grows = true; grows;) {
    grows = false;
    for (const Process& process : running) {
      if (known.count(process.self.pid) != 0) continue;
      if (!is_member(process) && known.count(process.parent) == 0) continue;
      known.insert(process.self.pid);
      members.push_back(process.self);
      grows = true;
    }
  }
  return members;
}

}  // namespace

ProcessFamily ProcessFamily::Of(pid_t ancestor, const ProcessFamily& others) {
  const std::vector<Process> running = RunningProcesses();
  const Ids former = IdsOf(others.members_);
  const Ids theirs =
      IdsOf(Gather(running, [&former](const Process& process) { return IsIn(former, process); }));
  ProcessFamily family;
  family.members_ = Gather(running, [ancestor, &theirs](const Process& process) {
    return process.parent == ancestor && !IsIn(theirs, process);
  });
  return family;
}

absl::StatusOr<ProcessFamily> ProcessFamily::Parse(const std::vector<std::string>& words) {
  ProcessFamily family;
  for (const std::string& word : words) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    FamilyMember member;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &member.pid) || member.pid <= 0 ||
        !absl::SimpleAtoi(parts[1], &member.started)) {
      return absl::InvalidArgumentError(absl::StrCat("no process: ", word));
    }
    family.members_.push_back(std::move(member));
  }
  return family;
}

bool ProcessFamily::Look() {
  const Ids former = IdsOf(members_);
  members_ = Gather(RunningProcesses(),
                    [&former](const Process& process) { return IsIn(former, process); });
  return !members_.empty();
}

std::vector<std::string> ProcessFamily::Text() const {
  std::vector<std::string> words;
  for (const FamilyMember& member : members_) {
    words.push_back(absl::StrCat(member.pid, ":", member.started));
  }
  return words;
}

}  // namespace warpline::cli
