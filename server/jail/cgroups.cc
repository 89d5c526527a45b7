#include "server/jail/cgroups.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/jail/kernel_calls.h"

namespace warpline::jail {
namespace {

// Of those that a host has, the ones that are of use here.
constexpr const char* kControllers[] = {"memory", "cpu", "pids"};
// The server answers everybody.
constexpr int kServerWeight = 1000;

std::vector<std::string> Words(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("mkdir ", folder));
  }
  return absl::OkStatus();
}

// Gives the controllers that there are on to the groups below `folder`, and returns them.
absl::StatusOr<std::string> GiveOn(const std::string& folder) {
  const std::vector<std::string> there = Words(folder + "/cgroup.controllers");
  std::vector<std::string> given;
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat(folder, " has none of the controllers memory, cpu and pids"));
  for (const char* const controller : kControllers) {
    if (std::find(there.begin(), there.end(), controller) == there.end()) continue;
    status = WriteSystemFile(folder + "/cgroup.subtree_control", absl::StrCat("+", controller));
    if (status.ok()) given.emplace_back(controller);
  }
  if (given.empty()) return status;
  return absl::StrJoin(given, " ");
}

// The path behind "0::" of /proc/self/cgroup; empty without cgroup v2.
std::string OwnGroup(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

}  // namespace

Cgroup::~Cgroup() { rmdir(folder_.c_str()); }

absl::Status Cgroup::Add(pid_t process) {
  return WriteSystemFile(folder_ + "/cgroup.procs", absl::StrCat(process));
}

absl::StatusOr<std::unique_ptr<Cgroups>> Cgroups::Manage(const std::string& folder) {
  const absl::Status made = MakeFolder(folder);
  if (!made.ok()) return made;
  auto controllers = GiveOn(folder);
  if (!controllers.ok()) return controllers.status();
  return std::unique_ptr<Cgroups>(new Cgroups(folder, *std::move(controllers)));
}

absl::StatusOr<std::unique_ptr<Cgroups>> Cgroups::ManageOwn(pid_t companion,
                                                            const std::string& root) {
  const std::string group = OwnGroup(root);
  if (group.empty()) return absl::FailedPreconditionError("the host has no cgroup v2");
  const std::string folder = absl::StrCat(root, "/sys/fs/cgroup", group == "/" ? "" : group);
  if (access((folder + "/cgroup.subtree_control").c_str(), W_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("no right to manage ", folder));
  }
  std::vector<std::string> movers = {absl::StrCat(getpid())};
  if (companion != 0) movers.push_back(absl::StrCat(companion));
  for (const std::string& process : Words(folder + "/cgroup.procs")) {
    if (std::find(movers.begin(), movers.end(), process) != movers.end()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the server is not alone in its group ", folder));
  }
  const std::string own = folder + "/server";
  absl::Status status = MakeFolder(own);
  for (const std::string& process : movers) {
    if (status.ok()) status = WriteSystemFile(own + "/cgroup.procs", process);
  }
  if (!status.ok()) return status;
  auto groups = Manage(folder);
  // Not every host has the file.
  if (groups.ok()) WriteSystemFile(own + "/cpu.weight", absl::StrCat(kServerWeight)).IgnoreError();
  return groups;
}

absl::StatusOr<std::unique_ptr<Cgroup>> Cgroups::NewGroup(const std::string& name,
                                                          const GroupLimits& limits) const {
  const std::string folder = absl::StrCat(folder_, "/", name);
  const absl::Status made = MakeFolder(folder);
  if (!made.ok()) return made;
  auto group = std::make_unique<Cgroup>(folder);
  const auto has = [this](const char* controller) {
    return absl::StrContains(controllers_, controller);
  };
  absl::Status status;
  const auto set = [&](const char* file, const std::string& value) {
    status.Update(WriteSystemFile(absl::StrCat(folder, "/", file), value));
  };
  if (has("memory")) {
    if (limits.memory_bytes != 0) set("memory.max", absl::StrCat(limits.memory_bytes));
    // A process that is short of one of its threads is of no use to anybody.
    if (limits.ends_together) set("memory.oom.group", "1");
  }
  if (has("pids") && limits.tasks != 0) set("pids.max", absl::StrCat(limits.tasks));
  if (has("cpu")) set("cpu.weight", absl::StrCat(limits.cpu_weight));
  if (!status.ok()) return status;
  return group;
}

}  // namespace warpline::jail
