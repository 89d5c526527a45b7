#include "client_stub/session/handshake/handshake.h"

#include <errno.h>  // program_invocation_short_name
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/process_identity.h"
#include "common/version.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kKnownFeatures = kFeatureResume | kFeatureModuleCache |
                                    kFeatureCompressedImages | kFeatureRefusals | kFeatureBoard |
                                    kFeatureBulk | kFeatureRelays | kFeatureOutlives |
                                    kFeatureGuard | kFeatureTiers | kFeatureMoves;
constexpr size_t kMaxText = 256;
constexpr size_t kMaxSecret = 256;
constexpr size_t kMaxToken = 2048;
constexpr char kRedirectPayload[] = "warpline/redirect";
constexpr uint64_t kMaxQuota = 1ull << 46;

absl::Status Bad(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("the server's welcome has a bad ", what));
}

absl::Status TakeDevice(const warpline_internal::DeviceInfo& info, uint64_t quota_bytes,
                        RemoteDevice* device) {
  if (quota_bytes == 0 || quota_bytes > kMaxQuota) return Bad("memory quota");
  device->total_bytes = quota_bytes;
  if (info.name().empty() || info.name().size() > kMaxText) return Bad("device name");
  if (info.uuid().size() != device->uuid.size()) return Bad("device uuid");
  if (info.pci_bus_id().size() > kMaxText) return Bad("PCI bus id");
  if (info.driver_version() < 1000 || info.driver_version() > 1000000) return Bad("driver version");
  if (info.greatest_stream_priority() > info.least_stream_priority()) {
    return Bad("range of stream priorities");
  }
  device->name = info.name();
  std::copy(info.uuid().begin(), info.uuid().end(), device->uuid.begin());
  device->driver_version = info.driver_version();
  device->least_stream_priority = info.least_stream_priority();
  device->greatest_stream_priority = info.greatest_stream_priority();
  device->pci_bus_id = info.pci_bus_id();
  for (const auto& attribute : info.attributes()) {
    // Attributes of a newer CUDA than this client's are no error.
    if (attribute.id() < 0) return Bad("device attribute");
    if (static_cast<size_t>(attribute.id()) >= device->attributes.size()) continue;
    device->attributes[attribute.id()] = attribute.value();
  }
  return absl::OkStatus();
}

absl::Status TakeDevices(const warpline_internal::Welcome& welcome,
                         std::vector<RemoteDevice>* devices) {
  const size_t count = 1 + static_cast<size_t>(welcome.more_devices_size());
  const auto peers = static_cast<size_t>(welcome.peers_size());
  if (count > kMaxSessionDevices) return Bad("number of devices");
  // Servers for one device send no list of peers.
  if (peers != count && peers != 0) return Bad("list of peers");
  devices->resize(count);
  for (size_t i = 0; i < count; ++i) {
    const auto& info = i == 0 ? welcome.device() : welcome.more_devices(i - 1).info();
    const uint64_t quota =
        i == 0 ? welcome.quota_bytes() : welcome.more_devices(i - 1).quota_bytes();
    RemoteDevice& device = (*devices)[i];
    device.resident_bytes =
        i == 0 ? welcome.resident_bytes() : welcome.more_devices(i - 1).resident_bytes();
    if (auto status = TakeDevice(info, quota, &device); !status.ok()) return status;
    if (peers == 0) continue;
    if (welcome.peers(i) >> count != 0) return Bad("list of peers");
    device.peers = welcome.peers(i) & ~(1u << i);
  }
  return absl::OkStatus();
}

}  // namespace

std::string MakeHello(const SessionOptions& options, const ArenaCandidate& arena) {
  warpline_internal::Hello hello;
  hello.set_min_version(kLeastProtocolVersion);
  hello.set_max_version(kProtocolVersion);
  uint64_t features = kKnownFeatures;
  if (options.resume <= absl::ZeroDuration()) features &= ~uint64_t{kFeatureResume};
  hello.set_features(features);
  hello.set_program(std::string(program_invocation_short_name).substr(0, kMaxText));
  hello.set_pid(static_cast<uint32_t>(getpid()));
  hello.set_device(options.device);
  hello.set_token(options.token);
  // Where there is a token, the reader is not a scheduler.
  if (options.token.empty()) {
    hello.set_credential(options.credential);
    hello.set_slice(options.slice);
  }
  hello.set_arena_base(arena.base);
  hello.set_arena_bytes(arena.bytes);
  hello.set_driver_version(kCudaVersion);
  const bool shares = options.tier == Tier::kGuarded;
  const GuardMode guard =
      shares && options.guard == GuardMode::kOff ? GuardMode::kHardened : options.guard;
  hello.set_guard(static_cast<uint32_t>(guard));
  hello.set_tier(static_cast<uint32_t>(options.tier));
  hello.set_niceness(getpriority(PRIO_PROCESS, 0));
  hello.set_start_time(ProcessStartTime(hello.pid()));
  hello.set_boot_id(BootId());
  hello.set_pid_namespace(PidNamespace());
  if (options.initial_memory_bytes > 0) {
    const uint64_t most = arena.bytes - 2 * kArenaMargin;
    auto* memory = hello.mutable_initial_memory();
    memory->set_va(arena.base + kArenaMargin);
    // In the guarded tier a session gets all that it may have.
    const uint64_t want = (options.initial_memory_bytes + kChunkGranularity - 1) /
                          kChunkGranularity * kChunkGranularity;
    memory->set_want_bytes(shares ? most : std::min(most, want));
    memory->set_min_bytes(kChunkGranularity);
  }
  return hello.SerializeAsString();
}

absl::StatusOr<std::string> EndpointOfRedirect(std::string_view payload) {
  warpline_internal::Redirect redirect;
  if (!redirect.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
      redirect.endpoint().empty() || redirect.endpoint().size() > kMaxText ||
      redirect.token().size() > kMaxToken) {
    return absl::InvalidArgumentError("the redirect to another server is malformed");
  }
  return redirect.endpoint();
}

absl::Status ParseRedirect(std::string_view payload) {
  if (const auto endpoint = EndpointOfRedirect(payload); !endpoint.ok()) return endpoint.status();
  // This code is not tried again, because each attempt would take a lease.
  absl::Status status = absl::CancelledError("sent from one server to another, too often");
  status.SetPayload(kRedirectPayload, absl::Cord(std::string(payload)));
  return status;
}

bool FollowRedirect(const absl::Status& status, SessionOptions* options) {
  const auto payload = status.GetPayload(kRedirectPayload);
  warpline_internal::Redirect redirect;
  if (!payload.has_value() || !redirect.ParseFromString(std::string(*payload))) return false;
  options->endpoint = redirect.endpoint();
  options->token = redirect.token();
  return true;
}

absl::StatusOr<Welcomed> ParseWelcome(std::string_view payload, const ArenaCandidate& arena) {
  warpline_internal::Welcome welcome;
  if (!welcome.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return Bad("encoding");
  }
  if (welcome.version() < kLeastProtocolVersion || welcome.version() > kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server speaks protocol version ", welcome.version(),
                     ", this client versions ", kLeastProtocolVersion, " to ", kProtocolVersion));
  }
  if ((welcome.features() & ~kKnownFeatures) != 0) {
    return absl::FailedPreconditionError(
        "the server chose features that this client does not know");
  }
  Welcomed welcomed;
  if (auto status = TakeDevices(welcome, &welcomed.terms.devices); !status.ok()) return status;
  // One frame of the largest kind must fit.
  if (welcome.window_bytes() < kMaxCommandsPayload || welcome.window_commands() < 16) {
    return Bad("window");
  }
  if (welcome.secret().size() > kMaxSecret || welcome.server().size() > kMaxText) {
    return Bad("secret or server name");
  }
  if (welcome.boot_id().size() > kMaxText || welcome.unix_socket().size() > kMaxText ||
      welcome.shm_name().size() > kMaxText || welcome.host_memory_socket().size() > kMaxText) {
    return Bad("other address");
  }
  if (const auto& memory = welcome.initial_memory(); memory.bytes() != 0) {
    const uint64_t start = arena.base + kArenaMargin;
    const uint64_t own_bytes =
        DeviceArenaBytes(arena.bytes, static_cast<uint32_t>(welcomed.terms.devices.size()));
    if (memory.va() != start || memory.bytes() % kChunkGranularity != 0 ||
        memory.bytes() > own_bytes - 2 * kArenaMargin || memory.bytes() > welcome.quota_bytes()) {
      return Bad("initial memory grant");
    }
    welcomed.terms.initial_grant = {memory.va(), memory.bytes()};
  }
  welcomed.terms.arena_base = arena.base;
  welcomed.terms.arena_bytes = arena.bytes;
  welcomed.session = welcome.session();
  welcomed.secret = welcome.secret();
  welcomed.window_bytes = welcome.window_bytes();
  welcomed.window_commands = welcome.window_commands();
  welcomed.server = welcome.server();
  welcomed.resumable = (welcome.features() & kFeatureResume) != 0;
  welcomed.version = welcome.version();
  welcomed.terms.features = welcome.features();
  welcomed.terms.max_streams = welcome.max_streams();
  welcomed.terms.max_handles = welcome.max_handles();
  welcomed.boot_id = welcome.boot_id();
  welcomed.terms.same_host = !welcomed.boot_id.empty() && welcomed.boot_id == BootId();
  welcomed.unix_socket = welcome.unix_socket();
  welcomed.shm_name = welcome.shm_name();
  welcomed.server_uid = welcome.server_uid();
  welcomed.user_namespace = welcome.user_namespace();
  welcomed.host_memory_socket = welcome.host_memory_socket();
  return welcomed;
}

}  // namespace warpline::stub
