#include "server/gpu_server/session/session_messages.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/cuda/cuda_result.h"
#include "common/niceness.h"
#include "common/process_identity.h"
#include "memory/arena_book.h"
#include "memory/quota.h"
#include "proto/frames.h"
#include "proto/guard.h"
#include "proto/refusal.h"
#include "proto/tier.h"
#include "server/gpu_server/leases/placement.h"

namespace warpline::server {
namespace {

// CUdevice_attribute.
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;

constexpr size_t kMaxProgramName = 256;

// Such as 90.
int ComputeCapability(const warpline_internal::DeviceInfo& info) {
  int sm = 0;
  for (const auto& attribute : info.attributes()) {
    if (attribute.id() == kComputeMajor) sm += 10 * attribute.value();
    if (attribute.id() == kComputeMinor) sm += attribute.value();
  }
  return sm;
}

// Up to where the client begins to use each device's part of the arena; 0 for no sink.
uint64_t SinkBytes(const warpline_internal::Hello& hello) {
  if (hello.initial_memory().va() <= hello.arena_base()) return 0;
  const uint64_t sink = hello.initial_memory().va() - hello.arena_base();
  return sink <= kMostSinkBytes && sink % kChunkGranularity == 0 ? sink : 0;
}

// Sets the mode that the tier implies.
absl::Status CheckGuard(warpline_internal::Hello* hello) {
  if (hello->guard() >= std::size(kGuardModes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("this server does not know the guard's mode ", hello->guard()));
  }
  if (hello->tier() >= std::size(kTiers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("this server does not know the tier ", hello->tier()));
  }
  if (!IsGuarded(*hello)) return absl::OkStatus();
  constexpr auto kHardened = static_cast<uint32_t>(GuardMode::kHardened);
  if (hello->guard() != kHardened && hello->guard() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernels of the guarded tier are hardened, and not guarded as ",
                     std::string(kGuardModes[hello->guard()])));
  }
  hello->set_guard(kHardened);
  return absl::OkStatus();
}

// Of the quota and of what it is part of.
uint64_t LeftOf(const Quota& quota) {
  const Quota& scarcer = quota.scarcer();
  return scarcer.limit_bytes() - std::min(scarcer.limit_bytes(), scarcer.used_bytes());
}

// The commands of the session that may be in flight, as its client is told.
uint64_t WindowOf(const SessionFacts& facts) {
  const uint64_t most = facts.entitlement->slice.max_commands;
  return most == 0 ? facts.options->window_commands
                   : std::min(most, facts.options->window_commands);
}

// A completion board is of use only where the client can map it.
bool HasBoard(const warpline_internal::Hello& hello) {
  return (hello.features() & kFeatureBoard) != 0 && hello.boot_id() == BootId();
}

// The longest that a launch may take; 0 for any time.
uint64_t LaunchLimitMs(const SessionFacts& facts) {
  absl::Duration limit = facts.entitlement->slice.launch_time_limit;
  if (IsGuarded(*facts.hello)) limit = std::min(limit, facts.options->guarded.launch_limit);
  if (limit == absl::InfiniteDuration()) return 0;
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(std::max(limit, absl::Milliseconds(1))));
}

// Who has no lease of a scheduler was promised nothing apart from others of the same payer.
bool WasPromised(const Entitlement& entitlement) {
  return entitlement.leased() && entitlement.tenant != kLocalTenant;
}

// Whose sessions have their shares of a device together.
std::string SliceNameOf(const Entitlement& entitlement, const std::string& payer) {
  return WasPromised(entitlement) ? absl::StrCat("lease ", entitlement.lease) : payer;
}

// Returns the name of the ledger that counts the session's use: its slice's, or its tenant's. A
// slice that has more than a weight, such as a reservation, has a ledger of its own.
std::string LedgerOf(const Entitlement& entitlement, const std::string& payer, bool tenants) {
  const DeviceSlice& slice = entitlement.slice;
  const bool more = slice.period > absl::ZeroDuration() || slice.sm_percent < 100;
  if (!tenants || more || !WasPromised(entitlement)) return SliceNameOf(entitlement, payer);
  return absl::StrCat("tenant ", entitlement.tenant);
}

// What a session may have of a device that it shares with others in one context.
void SetShare(const SessionFacts& facts, const std::string& payer,
              warpline_internal::OpenWorker* open) {
  const DeviceSlice& slice = facts.entitlement->slice;
  open->set_compute_weight(slice.weight);
  open->set_niceness(NicenessOf(facts.hello->niceness()));
  open->set_share_group(LedgerOf(*facts.entitlement, payer, slice.tenants_weight));
}

}  // namespace

absl::StatusOr<uint32_t> CheckHello(warpline_internal::Hello* hello) {
  const uint32_t version = AgreedVersion(hello->min_version(), hello->max_version());
  if (version == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks protocol versions ", hello->min_version(), " to ", hello->max_version(),
        ", this server ", kLeastProtocolVersion, " to ", kProtocolVersion));
  }
  hello->set_niceness(static_cast<int32_t>(NicenessOf(hello->niceness())));
  if (hello->program().size() > kMaxProgramName) {
    hello->mutable_program()->resize(kMaxProgramName);
  }
  const absl::Status arena =
      ValidateArena({hello->arena_base(), hello->arena_bytes()}, kMaxArenaBytes);
  if (!arena.ok()) return arena;
  if (const absl::Status guard = CheckGuard(hello); !guard.ok()) return guard;
  return version;
}

absl::Status CheckTier(const warpline_internal::Hello& hello, const SessionOptions& options) {
  const auto wanted = static_cast<Tier>(hello.tier());
  std::vector<std::string> offered;
  for (const Tier tier : options.tiers) {
    if (tier == wanted) return absl::OkStatus();
    offered.emplace_back(TierName(tier));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this server has no sessions of the tier ", std::string(TierName(wanted)),
                   ", only ", absl::StrJoin(offered, " and "), ": use --tier=", offered.front()));
}

absl::Status CheckTenantsTier(const warpline_internal::Hello& hello,
                              const Entitlement& entitlement) {
  const auto wanted = static_cast<Tier>(hello.tier());
  if (entitlement.AllowsTier(wanted)) return absl::OkStatus();
  const std::string allowed = FormatTierSet(entitlement.tiers & kKnownTiers);
  return absl::PermissionDeniedError(
      absl::StrCat("the tenant ", entitlement.tenant, " has no sessions of the tier ",
                   std::string(TierName(wanted)), ", only ", allowed, ": use --tier=", allowed));
}

uint64_t MostArenaBytes(const warpline_internal::Hello& hello, const SessionOptions& options) {
  if (!IsGuarded(hello)) return options.max_arena_bytes;
  return std::min(options.max_arena_bytes, options.guarded.max_arena_bytes);
}

absl::StatusOr<std::vector<std::string>> WantedDevices(const warpline_internal::Hello& hello,
                                                       const Entitlement& entitlement) {
  std::vector<std::string> wanted = ParseDeviceNames(hello.device());
  if (!entitlement.devices.empty()) {
    auto chosen = ChooseOfLease(entitlement.devices, wanted);
    if (!chosen.ok()) return chosen.status();
    wanted = *std::move(chosen);
  }
  if (IsGuarded(hello) && wanted.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a session of the guarded tier has one device, and not ", wanted.size(),
                     ": name one of them, or use --tier=isolated"));
  }
  return wanted;
}

absl::Status WhyNotOpened(const warpline_internal::WorkerOpened& opened,
                          const warpline_internal::Hello& hello) {
  // Not UNAVAILABLE, after which clients would ask for the same arena again.
  if (opened.refusal().reason() == warpline_internal::Refusal::ARENA_UNAVAILABLE) {
    return ArenaUnavailable(
        absl::StrFormat("%d bytes at %#x", hello.arena_bytes(), hello.arena_base()));
  }
  return absl::UnavailableError(
      absl::StrCat("the worker cannot open the device: ", opened.message(), " (",
                   CudaResultName(static_cast<CudaResult>(opened.error())), ")"));
}

std::vector<uint32_t> PeersOf(const warpline_internal::WorkerOpened& opened, size_t devices) {
  const int count = static_cast<int>(devices);
  const uint32_t all = (1u << count) - 1;
  std::vector<uint32_t> peers;
  for (int i = 0; i < count; ++i) {
    peers.push_back((i < opened.peers_size() ? opened.peers(i) & all : 0) | 1u << i);
  }
  return peers;
}

WorkerDevice WorkersDevice(const SessionDevices& devices) {
  WorkerDevice device = {devices.device(0).backend(), devices.device(0).ordinal(), {}};
  for (size_t i = 1; i < devices.size(); ++i) {
    device.more_ordinals.push_back(devices.device(i).ordinal());
  }
  return device;
}

absl::StatusOr<GuardedSizes> DivideMemoryOf(const SessionFacts& facts) {
  // A guarded session has its memory on the device for as long as it lasts.
  uint64_t bytes = std::min(LeftOf(facts.devices->quota(0)), facts.devices->LeftOfLimit(0));
  if (facts.entitlement->slice.memory_bytes == 0) {
    bytes = std::min(bytes, facts.options->guarded.memory_bytes);
  }
  return GuardedSizesFor(bytes, facts.hello->arena_bytes());
}

warpline_internal::MemoryRequest AllMemoryOf(const SessionFacts& facts) {
  const warpline_internal::Hello& hello = *facts.hello;
  warpline_internal::MemoryRequest request = hello.initial_memory();
  // Where the client begins to use its arena; it leaves as much before the room for modules.
  if (request.va() < hello.arena_base() + kChunkGranularity) {
    request.set_va(hello.arena_base() + kChunkGranularity);
  }
  const uint64_t margin = request.va() - hello.arena_base();
  const uint64_t part = hello.arena_bytes() - ModuleRoomBytes(hello.arena_bytes());
  const uint64_t room = margin < part / 2 ? part - 2 * margin : 0;
  // Others of the same quota may have taken of it meanwhile.
  const uint64_t want =
      std::min({room, facts.guarded.memory_bytes, LeftOf(facts.devices->quota(0))});
  request.set_want_bytes(want - want % kChunkGranularity);
  request.set_min_bytes(request.want_bytes());
  return request;
}

namespace {

// A session that may launch and bring no code runs what the operator vetted.
bool RunsVettedOnly(const Entitlement& entitlement) {
  return entitlement.Allows(Capability::kLaunch) && !entitlement.Allows(Capability::kLoad);
}

void SetVetted(const SessionOptions& options, warpline_internal::OpenWorker* open) {
  open->set_vetted_only(true);
  if (options.programs == nullptr) return;
  for (const ContentHash& hash : *options.programs->Images()) {
    open->add_vetted(std::string(hash.begin(), hash.end()));
  }
}

}  // namespace

warpline_internal::OpenWorker MakeOpenWorker(const SessionFacts& facts, const std::string& payer,
                                             uint64_t streams) {
  const WorkerDevice device = WorkersDevice(*facts.devices);
  warpline_internal::OpenWorker open;
  open.set_backend(device.backend);
  open.set_ordinal(device.ordinal);
  for (const int ordinal : device.more_ordinals) open.add_more_ordinals(ordinal);
  open.set_arena_base(facts.hello->arena_base());
  open.set_arena_bytes(facts.hello->arena_bytes());
  open.set_session(facts.id);
  open.set_max_handles(facts.entitlement->slice.max_handles);
  open.set_max_module_bytes(facts.entitlement->slice.max_module_bytes);
  if (facts.entitlement->slice.max_commands != 0) {
    open.set_max_commands(WindowOf(facts) + kHostDoneWindow);
  }
  open.set_max_streams(streams);
  open.set_sink_bytes(SinkBytes(*facts.hello));
  open.set_window_bytes(facts.options->window_bytes);
  open.set_sm(ComputeCapability(facts.devices->device(0).info()));
  open.set_rights(facts.entitlement->rights);
  if (RunsVettedOnly(*facts.entitlement)) SetVetted(*facts.options, &open);
  open.set_module_cache(facts.keeps_modules);
  open.set_record_modules(facts.records_modules);
  if (HasBoard(*facts.hello)) open.set_board_generation(1);
  open.set_guard(facts.hello->guard());
  open.set_launch_limit_ms(LaunchLimitMs(facts));
  const uint32_t sm_percent = facts.entitlement->slice.sm_percent;
  if (sm_percent < 100) open.set_sm_percent(sm_percent);
  if (IsGuarded(*facts.hello)) SetShare(facts, payer, &open);
  open.set_variable_room_bytes(facts.guarded.variable_bytes);
  open.set_sink_granule_bytes(facts.guarded.sink_granule_bytes);
  return open;
}

std::string PolicyTenantOf(const Entitlement& entitlement, const std::string& payer) {
  return WasPromised(entitlement) ? entitlement.tenant : payer;
}

std::string MpsGroupOf(const SessionFacts& facts, const std::string& payer) {
  if (!facts.has_mps || IsGuarded(*facts.hello) || facts.devices->size() != 1) return "";
  return TrustGroupOf(payer);
}

dispatch::DispatchTerms DispatchTermsOf(const SessionFacts& facts, const std::string& payer) {
  const DeviceSlice& slice = facts.entitlement->slice;
  const WorkerDevice device = WorkersDevice(*facts.devices);
  dispatch::DispatchTerms terms;
  terms.gpus = device.more_ordinals;
  terms.gpus.insert(terms.gpus.begin(), device.ordinal);
  terms.shares_context = IsGuarded(*facts.hello);
  terms.tenant = PolicyTenantOf(*facts.entitlement, payer);
  terms.slice = SliceNameOf(*facts.entitlement, payer);
  terms.compute_ledger = LedgerOf(*facts.entitlement, payer, slice.tenants_weight);
  terms.copy_ledger = LedgerOf(*facts.entitlement, payer, slice.tenants_copy_weight);
  terms.group = MpsGroupOf(facts, payer);
  terms.compute_weight = slice.weight;
  terms.copy_weight = slice.copy_weight;
  terms.priority = slice.priority;
  terms.niceness = NicenessOf(facts.hello->niceness());
  terms.period_ns = absl::ToInt64Nanoseconds(slice.period);
  terms.budget_ns = absl::ToInt64Nanoseconds(slice.budget);
  terms.best_effort = slice.best_effort;
  terms.session = facts.id;
  return terms;
}

warpline_internal::Welcome MakeWelcome(const SessionFacts& facts, const WelcomeTerms& terms) {
  const SessionOptions& options = *facts.options;
  const SessionDevices& devices = *facts.devices;
  uint64_t features =
      kFeatureCompressedImages | kFeatureRefusals | kFeatureOutlives | kFeatureMoves;
  if (facts.keeps_modules) features |= kFeatureModuleCache;
  if (HasBoard(*facts.hello)) features |= kFeatureBoard;
  const bool guarded = IsGuarded(*facts.hello);
  if (MayShareHostMemory(*facts.entitlement) && !guarded) features |= kFeatureBulk;
  if (facts.offers_relays && terms.resumable) features |= kFeatureRelays;
  if (facts.hello->guard() != 0) features |= kFeatureGuard;
  if (facts.hello->tier() != 0) features |= kFeatureTiers;
  warpline_internal::Welcome welcome;
  welcome.set_version(terms.version);
  welcome.set_features((facts.hello->features() & features) |
                       (terms.resumable ? kFeatureResume : kFeatureNone));
  welcome.set_session(facts.id);
  welcome.set_secret(terms.secret);
  *welcome.mutable_device() = devices.device(0).info();
  welcome.set_quota_bytes(terms.fixed_bytes != 0 ? terms.fixed_bytes
                                                 : devices.quota(0).limit_bytes());
  if (terms.fixed_bytes == 0) welcome.set_resident_bytes(facts.resident_bytes);
  for (size_t i = 1; i < devices.size(); ++i) {
    auto* const more = welcome.add_more_devices();
    *more->mutable_info() = devices.device(i).info();
    more->set_quota_bytes(devices.quota(i).limit_bytes());
    more->set_resident_bytes(facts.resident_bytes);
  }
  welcome.mutable_peers()->Add(terms.peers.begin(), terms.peers.end());
  welcome.set_window_bytes(options.window_bytes);
  welcome.set_window_commands(WindowOf(facts));
  welcome.set_max_streams(terms.streams);
  welcome.set_max_handles(facts.entitlement->slice.max_handles);
  welcome.set_server(options.server_name);
  welcome.set_boot_id(BootId());
  if (MayShareHostMemory(*facts.entitlement)) {
    welcome.set_host_memory_socket(options.host_memory_socket);
  }
  if (!options.unix_socket.empty() || !options.shm_name.empty()) {
    welcome.set_unix_socket(options.unix_socket);
    welcome.set_shm_name(options.shm_name);
    welcome.set_server_uid(geteuid());
    welcome.set_user_namespace(UserNamespace());
  }
  return welcome;
}

}  // namespace warpline::server
