#include "server/jail/layers.h"

namespace warpline::jail {
namespace {

constexpr LayerSpec kLayers[] = {
    {Layer::kLimits, "limits", "setrlimit(2)",
     "core dumps, real-time priority, more tasks and descriptors than a worker has a use for",
     true},
    {Layer::kIdentity, "identity",
     "CAP_SETUID and CAP_SETGID with user ids for workers (--worker_uids), or else user namespaces",
     "files, signals and processes of the server's user; of other workers too, with user ids",
     false},
    {Layer::kNamespaces, "namespaces", "CAP_SYS_ADMIN, or user namespaces",
     "the network, abstract sockets, System V IPC, other processes' mounts", false},
    {Layer::kMounts, "mounts", "the layer namespaces, and Linux 5.12 or later",
     "writing, creating and deleting files, whatever their permissions are", false},
    {Layer::kCapabilities, "capabilities", "capset(2)", "what root may do and others may not",
     true},
    {Layer::kUndumpable, "undumpable", "prctl(2); a build without a sanitizer",
     "/proc/PID/mem, fd, environ, and ptrace(2), to processes of the same user", false},
    {Layer::kFiles, "files",
     "Landlock, Linux 5.13 or later (6.12 for signals and abstract sockets)",
     "files and devices that are not in the profile; tracing, signalling, connecting outwards",
     false},
    {Layer::kSystemCalls, "system_calls", "seccomp(2) with filters",
     "sockets, processes, signals, keyrings, io_uring and the rest of the kernel's interfaces",
     true},
    {Layer::kCgroup, "cgroup",
     "cgroup v2 that the server may manage (Delegate=yes, --worker_cgroup)",
     "more of the host's memory, tasks and processor time than its share", false},
};

}  // namespace

absl::Span<const LayerSpec> AllLayers() { return kLayers; }

const LayerSpec& SpecOf(Layer layer) {
  for (const LayerSpec& spec : kLayers) {
    if (spec.layer == layer) return spec;
  }
  return kLayers[0];  // Not reached: the table has all of them.
}

std::optional<Layer> LayerNamed(absl::string_view name) {
  for (const LayerSpec& spec : kLayers) {
    if (name == spec.name) return spec.layer;
  }
  return std::nullopt;
}

}  // namespace warpline::jail
