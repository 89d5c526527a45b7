#include "server/jail/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/undumpable.h"
#include "server/jail/kernel_calls.h"

namespace warpline::jail {
namespace {

// Asks to be killed with the parent. A change of identity takes that back.
absl::Status DieWith(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "PR_SET_PDEATHSIG");
  }
  if (getppid() != parent) return absl::AbortedError("the parent process has died");
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerLimits(absl::Span<const Limit> limits) {
  for (const Limit& limit : limits) {
    rlimit now = {};
    if (getrlimit(static_cast<__rlimit_resource>(limit.resource), &now) != 0) {
      return absl::ErrnoToStatus(errno, limit.name);
    }
    now.rlim_max = std::min(now.rlim_max, limit.most);
    now.rlim_cur = std::min(now.rlim_cur, now.rlim_max);
    if (setrlimit(static_cast<__rlimit_resource>(limit.resource), &now) != 0) {
      return absl::ErrnoToStatus(errno, limit.name);
    }
  }
  return absl::OkStatus();
}

absl::Status GoBeforeTheServer() { return WriteSystemFile("/proc/self/oom_score_adj", "500"); }

absl::Status BecomeUser(uid_t id, const std::vector<gid_t>& groups) {
  const pid_t parent = getppid();
  if (setgroups(groups.size(), groups.data()) != 0 || setresgid(id, id, id) != 0 ||
      setresuid(id, id, id) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("user ", id));
  }
  return DieWith(parent);
}

absl::Status EnterUserNamespace() {
  const pid_t parent = getppid();
  // Its files in /proc belong to root when it is not dumpable, as after a change of user.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  const std::string user = absl::StrCat(geteuid(), " ", geteuid(), " 1");
  const std::string group = absl::StrCat(getegid(), " ", getegid(), " 1");
  if (unshare(CLONE_NEWUSER) != 0) return absl::ErrnoToStatus(errno, "unshare user");
  absl::Status status = WriteSystemFile("/proc/self/setgroups", "deny");
  status.Update(WriteSystemFile("/proc/self/uid_map", user));
  status.Update(WriteSystemFile("/proc/self/gid_map", group));
  status.Update(DieWith(parent));
  return status;
}

bool MayAdminister() { return HasCapabilities(1u << CAP_SYS_ADMIN); }

absl::Status EnterNamespaces(bool keep_network) {
  const int network = keep_network ? 0 : CLONE_NEWNET;
  if (unshare(network | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS) != 0) {
    return absl::ErrnoToStatus(errno, "unshare");
  }
  // So that nothing that is mounted here shows elsewhere.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "private mounts");
  }
  return absl::OkStatus();
}

absl::Status MakeMountsReadOnly(const std::vector<std::string>& writable) {
  for (const std::string& folder : writable) {
    if (mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("mount ", folder));
    }
  }
  mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof(attributes)) !=
      0) {
    return absl::ErrnoToStatus(errno, "mount_setattr");
  }
  // What a process writes there is about itself: NVIDIA's driver names its threads so, and does not
  // start if it cannot.
  std::vector<std::string> cleared = {"/proc"};
  cleared.insert(cleared.end(), writable.begin(), writable.end());
  mount_attr clear = {};
  clear.attr_clr = MOUNT_ATTR_RDONLY;
  for (const std::string& path : cleared) {
    if (syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), 0, &clear, sizeof(clear)) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("mount_setattr ", path));
    }
  }
  return absl::OkStatus();
}

absl::Status DropCapabilityBounds() {
  // Who may not is left with none by DropCapabilities(), and gets none back, since there is
  // no_new_privs.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EPERM) {
      return absl::ErrnoToStatus(errno, "PR_CAPBSET_DROP");
    }
  }
  constexpr unsigned long kBits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (prctl(PR_SET_SECUREBITS, kBits, 0, 0, 0) != 0 && errno != EPERM) {
    return absl::ErrnoToStatus(errno, "PR_SET_SECUREBITS");
  }
  return absl::OkStatus();
}

absl::Status DropCapabilities() {
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "PR_CAP_AMBIENT_CLEAR_ALL");
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, none) != 0) return absl::ErrnoToStatus(errno, "capset");
  return absl::OkStatus();
}

absl::Status MakeUndumpable() {
  if (warpline::MakeUndumpable()) return absl::OkStatus();
  return absl::UnimplementedError("built with a sanitizer");
}

}  // namespace warpline::jail
