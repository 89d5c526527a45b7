// Attempts on files, folders and devices.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "tests/attack/escape.h"

namespace warpline::attack {
namespace {

using jail::Layer;
using jail::LayerSet;

constexpr LayerSet kCalls = Layer::kSystemCalls;
constexpr LayerSet kRights = LayerSet(Layer::kIdentity) | Layer::kCapabilities;
constexpr LayerSet kReading = kRights | Layer::kFiles;
constexpr LayerSet kWriting = kReading | Layer::kMounts;

Result Open(const std::string& path, int flags) {
  const UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, 0600));
  return Judge(fd.valid());
}
// A file that is not there is nothing to be reached.
Result OpenIfThere(const std::string& path, int flags) {
  const Result result = Open(path, flags);
  return access(path.c_str(), F_OK) != 0 && errno == ENOENT ? Result{Outcome::kNotHere, "ENOENT"}
                                                            : result;
}
std::string In(const std::string& folder, const char* name) {
  return absl::StrCat(folder, "/", name, ".", getpid());
}

Result ReadSecret(const Targets& t) { return Open(t.secret, O_RDONLY); }
Result WriteSecret(const Targets& t) { return Open(t.secret, O_WRONLY | O_APPEND); }
Result ReadShadow(const Targets&) { return Open("/etc/shadow", O_RDONLY); }
Result WritePasswords(const Targets&) { return Open("/etc/passwd", O_WRONLY | O_APPEND); }
Result CreateFile(const Targets& t) { return Open(In(t.folder, "file"), O_CREAT | O_WRONLY); }
Result CreatePublicFile(const Targets& t) {
  return Open(In(t.public_folder, "file"), O_CREAT | O_WRONLY);
}
Result CreateSharedMemory(const Targets&) {
  const std::string path = In("/dev/shm", "warpline-attack");
  const Result result = Open(path, O_CREAT | O_WRONLY);
  unlink(path.c_str());
  return result;
}
Result CreateUnnamedFile(const Targets& t) { return Open(t.public_folder, O_TMPFILE | O_WRONLY); }
Result CreateFolder(const Targets& t) {
  return Judge(mkdir(In(t.public_folder, "folder").c_str(), 0700) == 0);
}
Result CreateLink(const Targets& t) {
  return Judge(symlink("/", In(t.public_folder, "link").c_str()) == 0);
}
Result CreateFifo(const Targets& t) {
  return Judge(mkfifo(In(t.public_folder, "fifo").c_str(), 0600) == 0);
}
Result CreateDevice(const Targets& t) {
  // The number of /dev/null.
  return Judge(mknod(In(t.folder, "device").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0);
}
Result TruncateSecret(const Targets& t) {
  struct stat info;
  if (stat(t.secret.c_str(), &info) != 0) return Judge(false);
  return Judge(truncate(t.secret.c_str(), info.st_size) == 0);
}
Result RenameSecret(const Targets& t) {
  const std::string other = t.secret + ".moved";
  if (rename(t.secret.c_str(), other.c_str()) != 0) return Judge(false);
  return Judge(rename(other.c_str(), t.secret.c_str()) == 0);
}
Result LinkSecret(const Targets& t) {
  return Judge(link(t.secret.c_str(), In(t.folder, "linked").c_str()) == 0);
}
Result ChangeMode(const Targets& t) { return Judge(chmod(t.secret.c_str(), 0600) == 0); }
Result ChangeTimes(const Targets& t) {
  return Judge(utimensat(AT_FDCWD, t.secret.c_str(), nullptr, 0) == 0);
}
Result DeleteFile(const Targets& t) {
  return Judge(unlink(absl::StrCat(t.folder, "/to_delete").c_str()) == 0);
}
Result WatchFolder(const Targets& t) {
  const UniqueFd watcher(inotify_init1(IN_CLOEXEC));
  if (!watcher.valid()) return Judge(false);
  return Judge(inotify_add_watch(watcher.get(), t.public_folder.c_str(), IN_ALL_EVENTS) >= 0);
}
Result OpenByHandle(const Targets& t) {
  alignas(file_handle) char space[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
  auto* const handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, t.secret.c_str(), handle, &mount, 0) != 0) return Judge(false);
  const UniqueFd root(open("/", O_RDONLY | O_CLOEXEC));
  const UniqueFd fd(open_by_handle_at(root.get(), handle, O_RDONLY | O_CLOEXEC));
  return Judge(fd.valid());
}
Result ListProcesses(const Targets&) {
  DIR* const processes = opendir("/proc");
  const Result result = Judge(processes != nullptr);
  if (processes != nullptr) closedir(processes);
  return result;
}
Result ReadNetwork(const Targets&) { return Open("/proc/1/net/tcp", O_RDONLY); }
Result SetCorePattern(const Targets&) { return Open("/proc/sys/kernel/core_pattern", O_WRONLY); }
Result TriggerSysRq(const Targets&) { return OpenIfThere("/proc/sysrq-trigger", O_WRONLY); }
Result ReadKernelSymbols(const Targets&) { return Open("/proc/kallsyms", O_RDONLY); }
Result ReadKernelLog(const Targets&) { return Open("/dev/kmsg", O_RDONLY | O_NONBLOCK); }
Result ReadKernelMemory(const Targets&) { return OpenIfThere("/proc/kcore", O_RDONLY); }
Result OpenMemoryDevice(const Targets&) { return OpenIfThere("/dev/mem", O_RDONLY); }
Result OpenTerminal(const Targets&) { return Open("/dev/ptmx", O_RDWR | O_NOCTTY); }
Result OpenVirtualMachines(const Targets&) { return OpenIfThere("/dev/kvm", O_RDWR); }
Result OpenFuse(const Targets&) { return OpenIfThere("/dev/fuse", O_RDWR); }
Result OpenCgroups(const Targets&) { return Open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY); }
Result OpenHome(const Targets&) { return Open("/root", O_RDONLY | O_DIRECTORY); }

constexpr Attempt kAttempts[] = {
    {"read_secret_file", kReading, &ReadSecret},
    {"append_to_secret_file", kWriting, &WriteSecret},
    {"read_shadow_passwords", kReading, &ReadShadow},
    {"append_to_passwords", kWriting, &WritePasswords},
    {"create_file_of_server", kWriting, &CreateFile},
    {"create_public_file", LayerSet(Layer::kFiles) | Layer::kMounts, &CreatePublicFile},
    {"create_shared_memory_file", LayerSet(Layer::kFiles) | Layer::kMounts, &CreateSharedMemory},
    {"create_unnamed_file", LayerSet(Layer::kFiles) | Layer::kMounts, &CreateUnnamedFile},
    {"create_folder", LayerSet(Layer::kFiles) | Layer::kMounts | kCalls, &CreateFolder},
    {"create_symbolic_link", LayerSet(Layer::kFiles) | Layer::kMounts | kCalls, &CreateLink},
    {"create_fifo", LayerSet(Layer::kFiles) | Layer::kMounts | kCalls, &CreateFifo},
    {"create_device_file", kWriting | kCalls, &CreateDevice},
    {"truncate_secret_file", kWriting | kCalls, &TruncateSecret},
    {"rename_secret_file", kWriting | kCalls, &RenameSecret},
    {"link_secret_file", kWriting | kCalls, &LinkSecret},
    {"change_mode_of_secret_file", kRights | Layer::kMounts | kCalls, &ChangeMode},
    {"change_times_of_secret_file", kRights | Layer::kMounts | kCalls, &ChangeTimes},
    {"delete_file_of_server", kWriting | kCalls, &DeleteFile},
    {"watch_folder", kCalls, &WatchFolder},
    {"open_file_by_handle", kReading | kCalls, &OpenByHandle},
    {"list_processes", Layer::kFiles, &ListProcesses},
    {"read_connections_of_host", kReading, &ReadNetwork},
    {"set_core_pattern", kReading, &SetCorePattern},
    {"trigger_sysrq", kReading, &TriggerSysRq},
    {"read_kernel_symbols", Layer::kFiles, &ReadKernelSymbols},
    {"read_kernel_log", kReading, &ReadKernelLog},
    {"read_kernel_memory", kReading, &ReadKernelMemory},
    {"open_memory_device", kReading, &OpenMemoryDevice},
    {"open_terminal", Layer::kFiles, &OpenTerminal},
    {"open_virtual_machines", kReading, &OpenVirtualMachines},
    {"open_fuse", kReading, &OpenFuse},
    {"open_cgroups", Layer::kFiles, &OpenCgroups},
    {"open_home_of_root", kReading, &OpenHome},
};

}  // namespace

absl::Span<const Attempt> FileAttempts() { return kAttempts; }

}  // namespace warpline::attack
