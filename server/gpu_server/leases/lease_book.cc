#include "server/gpu_server/leases/lease_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "proto/devices.h"
#include "proto/refusal.h"
#include "server/gpu_server/leases/epoch_fence.h"

namespace warpline::server {
namespace {

constexpr size_t kLeaseIdBytes = 8;
// How long an ended lease is remembered, so that no session joins it with a token that is still
// good: a scheduler's tokens last for --lease_ttl, which is at most a day.
constexpr absl::Duration kAfterlife = absl::Hours(25);
constexpr size_t kMaxIdle = 65536;
// However small its quota, a session may have an eighth of the device's chunks, within these
// bounds: what programs allocate bit by bit is granted bit by bit, and 1024 of the smallest chunks
// are 2 GiB.
constexpr uint64_t kLeastChunks = 64, kEnoughChunks = 1024;
// However small, a lease may have this part of the host memory.
constexpr uint64_t kLeastHostPart = 16;
// In place of a device, where quotas are kept by device.
constexpr char kHostMemory[] = "";

struct Lease {
  uint32_t sessions = 0;
  bool local = false;
  bool arriving = false;  // It is not this server's yet.
  absl::Time local_expires;
  std::string opened_by;  // The peer, where the server gave it out itself.
  // Without sessions it is not idle before.
  absl::Time expects_until = absl::InfinitePast();
  absl::Time ends = absl::InfiniteFuture();
  std::map<std::string, std::shared_ptr<Quota>> quotas;  // By device.
  std::shared_ptr<Quota> host_quota;
  std::optional<uint64_t> resident_bytes;  // If it was set.
};

struct Ended {
  std::string reason;
  absl::Time forget;
};

// How much of a device an entitlement is, from 0 to 1.
double PartOf(const Entitlement& entitlement, uint64_t capacity_bytes) {
  const auto all = static_cast<double>(std::max<uint64_t>(capacity_bytes, 1));
  return static_cast<double>(entitlement.MemoryOn(capacity_bytes)) / all;
}

}  // namespace

// The part of the book that is shared with the memberships, which may outlive it.
struct LeaseMembership::Shared {
  // Constant.
  bool required = false;
  uint64_t peer_memory_bytes = 0;
  uint64_t payer_host_bytes = 0;
  std::function<absl::Time()> clock;

  mutable Mutex mu;
  std::vector<VerifyKey> keys ABSL_GUARDED_BY(mu);
  std::map<std::string, Lease> leases ABSL_GUARDED_BY(mu);
  std::map<std::string, Ended> ended ABSL_GUARDED_BY(mu);
  // Leases without sessions, each with the time from which it is idle.
  std::map<std::string, absl::Time> idle ABSL_GUARDED_BY(mu);
  EpochFence fence ABSL_GUARDED_BY(mu);
  // Of leases that were forgotten, by lease and device: memory of their last sessions may be on its
  // way back.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Quota>> former ABSL_GUARDED_BY(mu);
  // Of those who pay, by name and device, which is empty for host memory. They live in the quotas
  // of sessions, and in what is held of these.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Quota>> payers ABSL_GUARDED_BY(mu);
  // How much later the scheduler's clock is.
  absl::Duration offset ABSL_GUARDED_BY(mu);

  std::shared_ptr<Quota> PayersQuota(const std::string& payer, const std::string& device,
                                     uint64_t limit_bytes) {
    MutexLock lock(&mu);
    std::erase_if(payers, [](const auto& quota) { return quota.second.expired(); });
    std::weak_ptr<Quota>& known = payers[{payer, device}];
    std::shared_ptr<Quota> quota = known.lock();
    if (quota == nullptr) known = quota = Quota::Create(limit_bytes);
    return quota;
  }

  // PERMISSION_DENIED for a lease that was ended. UNAUTHENTICATED for one that is not known any
  // more, where leases do not come from a scheduler (`required`).
  absl::Status CheckGoesOn(const std::string& lease) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const auto found = ended.find(lease);
    if (found != ended.end()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the lease was ended: ", found->second.reason));
    }
    if (!required && leases.count(lease) == 0) {
      return absl::UnauthenticatedError("the lease is over");
    }
    return absl::OkStatus();
  }
};

LeaseMembership::LeaseMembership(std::shared_ptr<Shared> shared, Entitlement entitlement,
                                 const std::string& peer)
    : shared_(std::move(shared)),
      entitlement_(std::move(entitlement)),
      peer_pays_(!shared_->required),
      payer_(peer_pays_ ? peer : absl::StrCat("tenant ", entitlement_.tenant)) {}

absl::Status LeaseMembership::CheckHeld() const {
  if (shared_ == nullptr || !entitlement_.leased()) return absl::OkStatus();
  MutexLock lock(&shared_->mu);
  return shared_->CheckGoesOn(entitlement_.lease);
}

uint64_t LeaseMembership::ResidentBytes() const {
  if (shared_ != nullptr && entitlement_.leased()) {
    MutexLock lock(&shared_->mu);
    const auto found = shared_->leases.find(entitlement_.lease);
    if (found != shared_->leases.end() && found->second.resident_bytes.has_value()) {
      return *found->second.resident_bytes;
    }
  }
  return entitlement_.slice.resident_bytes;
}

void LeaseMembership::SetResidentBytes(uint64_t bytes) {
  if (shared_ == nullptr) return;
  if (!entitlement_.leased()) {
    entitlement_.slice.resident_bytes = bytes;
    return;
  }
  MutexLock lock(&shared_->mu);
  shared_->leases[entitlement_.lease].resident_bytes = bytes;
}

void LeaseMembership::ExpectAnother(absl::Duration patience) {
  if (shared_ == nullptr || !entitlement_.leased()) return;
  const absl::Time until = shared_->clock() + patience;
  MutexLock lock(&shared_->mu);
  const auto found = shared_->leases.find(entitlement_.lease);
  if (found == shared_->leases.end()) return;
  found->second.expects_until = std::max(found->second.expects_until, until);
}

LeaseMembership& LeaseMembership::operator=(LeaseMembership&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  shared_ = std::move(other.shared_);
  entitlement_ = std::exchange(other.entitlement_, Entitlement());
  peer_pays_ = other.peer_pays_;
  payer_ = std::move(other.payer_);
  return *this;
}

void LeaseMembership::Leave() {
  const auto shared = std::move(shared_);
  if (shared == nullptr || !entitlement_.leased()) return;
  MutexLock lock(&shared->mu);
  const auto found = shared->leases.find(entitlement_.lease);
  if (found == shared->leases.end() || --found->second.sessions > 0) return;
  if (found->second.local) return;
  std::erase_if(shared->former, [](const auto& quota) { return quota.second.expired(); });
  // The quota lives on in the memory that is still held of it.
  for (const auto& [device, quota] : found->second.quotas) {
    if (quota.use_count() > 1) shared->former[{entitlement_.lease, device}] = quota;
  }
  const std::shared_ptr<Quota>& host = found->second.host_quota;
  if (host.use_count() > 1) shared->former[{entitlement_.lease, kHostMemory}] = host;
  const absl::Time idle_from = found->second.expects_until;
  shared->leases.erase(found);
  if (shared->idle.size() < kMaxIdle) shared->idle[entitlement_.lease] = idle_from;
}

std::shared_ptr<Quota> LeaseMembership::QuotaOn(const std::string& device_uuid,
                                                uint64_t capacity_bytes, uint64_t max_chunks) {
  const uint64_t limit = entitlement_.MemoryOn(capacity_bytes);
  const double part = PartOf(entitlement_, capacity_bytes);
  const auto chunks = static_cast<uint64_t>(static_cast<double>(max_chunks) * part);
  const uint64_t least = std::clamp(max_chunks / 8, kLeastChunks, kEnoughChunks);
  const std::shared_ptr<Quota> peers = PeersQuotaOn(device_uuid);
  const auto create = [&] { return Quota::CreateWithin(peers, limit, std::max(chunks, least)); };
  if (!entitlement_.leased()) return create();
  MutexLock lock(&shared_->mu);
  std::shared_ptr<Quota>& quota = shared_->leases[entitlement_.lease].quotas[device_uuid];
  if (quota == nullptr) {
    if (const auto former = shared_->former.extract({entitlement_.lease, device_uuid})) {
      quota = former.mapped().lock();
    }
  }
  if (quota == nullptr) quota = create();
  return quota;
}

std::shared_ptr<Quota> LeaseMembership::PeersQuotaOn(const std::string& device_uuid) const {
  if (!peer_pays_ || shared_->peer_memory_bytes == 0) return nullptr;
  return shared_->PayersQuota(payer_, device_uuid, shared_->peer_memory_bytes);
}

std::shared_ptr<Quota> LeaseMembership::PayersHostQuota() {
  const uint64_t limit = shared_ == nullptr ? 0 : shared_->payer_host_bytes;
  return limit == 0 ? Quota::Create(Quota::kUnbounded) : shared_->PayersQuota(payer_, "", limit);
}

std::shared_ptr<Quota> LeaseMembership::HostQuota(uint64_t total_bytes, uint64_t capacity_bytes) {
  const double part = PartOf(entitlement_, capacity_bytes);
  const auto bytes = static_cast<uint64_t>(static_cast<double>(total_bytes) * part);
  const uint64_t own = entitlement_.slice.staging_bytes;
  const uint64_t limit =
      own == 0 ? std::max(bytes, total_bytes / kLeastHostPart) : std::min(own, total_bytes);
  const std::shared_ptr<Quota> all = PayersHostQuota();
  if (!entitlement_.leased()) return Quota::CreateWithin(all, limit);
  MutexLock lock(&shared_->mu);
  std::shared_ptr<Quota>& quota = shared_->leases[entitlement_.lease].host_quota;
  if (quota == nullptr) {
    if (const auto former = shared_->former.extract({entitlement_.lease, kHostMemory})) {
      quota = former.mapped().lock();
    }
  }
  if (quota == nullptr) quota = Quota::CreateWithin(all, limit);
  return quota;
}

absl::StatusOr<std::unique_ptr<LeaseBook>> LeaseBook::Create(LeaseBookOptions options) {
  auto key = SigningKey::Generate();
  if (!key.ok()) return key.status();
  return std::unique_ptr<LeaseBook>(new LeaseBook(std::move(options), *std::move(key)));
}

LeaseBook::LeaseBook(LeaseBookOptions options, SigningKey key)
    : options_(std::move(options)),
      own_key_(std::move(key)),
      shared_(std::make_shared<LeaseMembership::Shared>()) {
  shared_->required = options_.required;
  shared_->peer_memory_bytes = options_.peer_memory_bytes;
  shared_->payer_host_bytes = options_.payer_host_bytes;
  shared_->clock = options_.clock;
}

absl::Time LeaseBook::Now() const {
  const absl::Time own = options_.clock();
  MutexLock lock(&shared_->mu);
  return own + shared_->offset;
}

absl::StatusOr<std::vector<VerifyKey>> LeaseBook::Keys() const {
  if (!options_.required) return std::vector<VerifyKey>{own_key_.verify_key()};
  MutexLock lock(&shared_->mu);
  if (shared_->keys.empty()) {
    return absl::UnavailableError("the server has not yet reached its scheduler");
  }
  return shared_->keys;
}

// Returns the lease of a token that is good now.
absl::StatusOr<LeaseToken> LeaseBook::Open(const std::string& token,
                                           const CertificateHolder& holder,
                                           bool may_be_expired) const {
  const auto keys = Keys();
  if (!keys.ok()) return keys.status();
  auto opened = OpenToken(token, *keys);
  if (!opened.ok()) return opened.status();
  LeaseToken checked = *opened;
  if (may_be_expired) checked.expires = absl::InfiniteFuture();
  if (auto status = CheckToken(checked, options_.server_name, Now()); !status.ok()) return status;
  if (auto status = CheckHolder(*opened, holder); !status.ok()) return status;
  return opened;
}

Entitlement LeaseBook::EntitledBy(const LeaseToken* token) const {
  Entitlement entitlement;
  if (token != nullptr) entitlement = *token;
  uint64_t& memory = entitlement.slice.memory_bytes;
  // The scheduler knows what it gives, but a client that asks this server itself gets no more than
  // others.
  if (memory == 0) {
    memory = options_.session_memory_bytes;
  } else if (!options_.required && options_.session_memory_bytes != 0) {
    memory = std::min(memory, options_.session_memory_bytes);
  }
  return entitlement;
}

absl::StatusOr<LeaseMembership> LeaseBook::Join(const std::string& token,
                                                const CertificateHolder& holder,
                                                const std::string& peer) {
  return JoinAs(token, holder, peer, /*may_be_expired=*/false);
}

absl::StatusOr<LeaseMembership> LeaseBook::Rejoin(const std::string& token,
                                                  const CertificateHolder& holder,
                                                  const std::string& peer) {
  return JoinAs(token, holder, peer, /*may_be_expired=*/true);
}

absl::StatusOr<LeaseMembership> LeaseBook::JoinAs(const std::string& token,
                                                  const CertificateHolder& holder,
                                                  const std::string& peer, bool may_be_expired) {
  if (token.empty()) {
    if (!options_.required) return LeaseMembership(shared_, EntitledBy(nullptr), peer);
    return absl::UnauthenticatedError(
        "this server takes sessions of its scheduler's leases only: name the scheduler in "
        "WARPLINE_ENDPOINT, or use `warpline run`");
  }
  auto opened = Open(token, holder, may_be_expired);
  if (!opened.ok()) return opened.status();
  return Enter(*opened, peer, /*moves=*/false);
}

absl::StatusOr<LeaseMembership> LeaseBook::Enter(const LeaseToken& token, const std::string& peer,
                                                 bool moves) {
  MutexLock lock(&shared_->mu);
  // It may have left this server before.
  if (moves) shared_->ended.erase(token.lease);
  if (auto status = shared_->CheckGoesOn(token.lease); !status.ok()) {
    return status;
  }
  if (options_.required) {
    if (auto status = shared_->fence.Pass(token.lease, token.epoch); !status.ok()) {
      return status;
    }
  }
  Lease& lease = shared_->leases[token.lease];
  if (lease.sessions >= token.max_sessions) {
    if (lease.sessions == 0) shared_->leases.erase(token.lease);
    return NoRoom(absl::StrCat("the lease has ", token.max_sessions,
                               " sessions already, which is its limit"));
  }
  ++lease.sessions;
  lease.arriving = lease.arriving || moves;
  lease.ends = token.ends;
  shared_->idle.erase(token.lease);
  return LeaseMembership(shared_, EntitledBy(&token), peer);
}

absl::StatusOr<LeaseToken> LeaseBook::OpenTicket(const std::string& ticket) const {
  if (!options_.required) {
    return absl::UnauthenticatedError("no scheduler moves leases to this server");
  }
  const auto keys = Keys();
  if (!keys.ok()) return keys.status();
  auto opened = OpenToken(ticket, *keys);
  if (!opened.ok()) return opened.status();
  const absl::Status checked = CheckTicket(*opened, options_.server_name, Now());
  if (!checked.ok()) return checked;
  return opened;
}

absl::StatusOr<LeaseMembership> LeaseBook::JoinMoved(const LeaseToken& ticket,
                                                     const CertificateHolder& holder,
                                                     const std::string& peer) {
  if (auto status = CheckHolder(ticket, holder); !status.ok()) return status;
  return Enter(ticket, peer, /*moves=*/true);
}

void LeaseBook::Arrive(const std::string& lease) {
  MutexLock lock(&shared_->mu);
  const auto found = shared_->leases.find(lease);
  if (found != shared_->leases.end()) found->second.arriving = false;
}

absl::StatusOr<std::string> LeaseBook::LeaseOf(const std::string& token,
                                               const CertificateHolder& holder, bool* here) const {
  const auto keys = Keys();
  if (!keys.ok()) return keys.status();
  const auto opened = OpenToken(token, *keys);
  if (!opened.ok()) return opened.status();
  if (!opened->moved_from.empty()) return absl::UnauthenticatedError("a ticket is no token");
  if (auto status = CheckHolder(*opened, holder); !status.ok()) return status;
  *here = opened->server == options_.server_name;
  // Another server judges its own tokens.
  if (*here) {
    if (auto status = CheckToken(*opened, options_.server_name, Now()); !status.ok()) return status;
  }
  return opened->lease;
}

absl::StatusOr<Entitlement> LeaseBook::Show(const std::string& token,
                                            const CertificateHolder& holder) const {
  if (token.empty() && !options_.required) return EntitledBy(nullptr);
  const auto opened = Open(token, holder);
  if (!opened.ok()) return opened.status();
  MutexLock lock(&shared_->mu);
  if (auto status = shared_->CheckGoesOn(opened->lease); !status.ok()) {
    return status;
  }
  return EntitledBy(&*opened);
}

// --- Local leases.

// Drops the leases that were not renewed and have no sessions.
void LeaseBook::DropExpired() const {
  const absl::Time now = Now();
  MutexLock lock(&shared_->mu);
  for (auto lease = shared_->leases.begin(); lease != shared_->leases.end();) {
    const Lease& l = lease->second;
    const bool over = l.local && l.sessions == 0 && now >= l.local_expires;
    lease = over ? shared_->leases.erase(lease) : std::next(lease);
  }
}

absl::StatusOr<std::string> LeaseBook::SignLocal(const LeaseToken& token) const {
  return SignToken(own_key_, token);
}

absl::StatusOr<LeaseToken> LeaseBook::OpenLocal(uint64_t memory_bytes,
                                                std::vector<std::string> devices, uint32_t sessions,
                                                std::string* token, const CertificateHolder& holder,
                                                const std::string& peer) {
  if (options_.required) {
    return absl::FailedPreconditionError(
        "this server belongs to a scheduler, which gives out its leases: name the scheduler as "
        "endpoint");
  }
  if (devices.size() > kMaxSessionDevices) return absl::InvalidArgumentError("a malformed device");
  DropExpired();
  LeaseToken made;
  made.lease = absl::BytesToHexString(RandomBytes(kLeaseIdBytes));
  made.tenant = kLocalTenant;
  made.server = options_.server_name;
  made.devices = std::move(devices);
  made.slice.memory_bytes = memory_bytes;
  made.max_sessions = options_.max_local_sessions;
  if (sessions != 0) made.max_sessions = std::min(made.max_sessions, sessions);
  made.expires = Now() + options_.local_ttl;
  made.holder = holder;
  auto text = SignLocal(made);
  if (!text.ok()) return text.status();
  MutexLock lock(&shared_->mu);
  if (shared_->leases.size() >= options_.max_local) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server has as many leases as it keeps, ", options_.max_local,
                     ": one ends with its `warpline run`, or ",
                     absl::FormatDuration(options_.local_ttl), " after its program was killed"));
  }
  const auto of_peer = std::count_if(shared_->leases.begin(), shared_->leases.end(),
                                     [&](const auto& l) { return l.second.opened_by == peer; });
  if (of_peer >= options_.max_local_of_peer) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this client has as many leases as one may have here, ", options_.max_local_of_peer,
        ": end some `warpline run` first, or let several programs share the lease of one"));
  }
  Lease& lease = shared_->leases[made.lease];
  lease.local = true;
  lease.local_expires = made.expires;
  lease.opened_by = peer;
  *token = *std::move(text);
  return made;
}

absl::StatusOr<LeaseToken> LeaseBook::RenewLocal(const std::string& token, std::string* renewed,
                                                 const CertificateHolder& holder) {
  auto opened = OpenToken(token, {own_key_.verify_key()});
  if (!opened.ok()) return opened.status();
  if (auto status = RenewHolder(holder, &*opened); !status.ok()) return status;
  opened->expires = Now() + options_.local_ttl;
  auto text = SignLocal(*opened);
  if (!text.ok()) return text.status();
  DropExpired();
  MutexLock lock(&shared_->mu);
  const auto found = shared_->leases.find(opened->lease);
  if (found == shared_->leases.end() || !found->second.local) {
    return absl::NotFoundError("the lease is over");
  }
  found->second.local_expires = opened->expires;
  *renewed = *std::move(text);
  return opened;
}

absl::StatusOr<std::string> LeaseBook::CloseLocal(const std::string& token) {
  const auto opened = OpenToken(token, {own_key_.verify_key()});
  if (!opened.ok()) return opened.status();
  MutexLock lock(&shared_->mu);
  const auto found = shared_->leases.find(opened->lease);
  if (found == shared_->leases.end()) return absl::NotFoundError("the lease is over");
  found->second.local = false;
  if (found->second.sessions == 0) shared_->leases.erase(found);
  return opened->lease;
}

// --- What the scheduler says.

void LeaseBook::SetKeys(std::vector<VerifyKey> keys) {
  MutexLock lock(&shared_->mu);
  shared_->keys = std::move(keys);
}

void LeaseBook::SetSchedulerTime(absl::Time now) {
  const absl::Duration offset = now - options_.clock();
  MutexLock lock(&shared_->mu);
  shared_->offset = offset;
}

void LeaseBook::MarkEnded(const std::string& lease, const EndReason& reason) {
  const absl::Time now = Now();
  MutexLock lock(&shared_->mu);
  for (auto old = shared_->ended.begin(); old != shared_->ended.end();) {
    old = now >= old->second.forget ? shared_->ended.erase(old) : std::next(old);
  }
  shared_->ended[lease] = {ReasonForHolder(reason), now + kAfterlife};
}

std::vector<EndedLease> LeaseBook::TakeEnded() {
  const absl::Time now = Now();
  std::vector<EndedLease> over;
  {
    MutexLock lock(&shared_->mu);
    for (auto& [id, lease] : shared_->leases) {
      if (now < lease.ends) continue;
      lease.ends = absl::InfiniteFuture();
      over.push_back(
          {id, {"it has lasted as long as its tenant's leases may", EndCause::kNamesNobody}});
    }
  }
  for (const EndedLease& lease : over) MarkEnded(lease.lease, lease.reason);
  return over;
}

std::map<std::string, uint32_t> LeaseBook::Sessions() const {
  MutexLock lock(&shared_->mu);
  std::map<std::string, uint32_t> sessions;
  for (const auto& [id, lease] : shared_->leases) {
    if (lease.sessions > 0 && !lease.arriving) sessions[id] = lease.sessions;
  }
  return sessions;
}

std::vector<std::string> LeaseBook::IdleLeases() const {
  const absl::Time now = options_.clock();
  std::vector<std::string> idle;
  MutexLock lock(&shared_->mu);
  for (const auto& [lease, from] : shared_->idle) {
    if (now >= from) idle.push_back(lease);
  }
  return idle;
}

void LeaseBook::ForgetIdle(const std::vector<std::string>& leases) {
  MutexLock lock(&shared_->mu);
  for (const std::string& lease : leases) shared_->idle.erase(lease);
}

}  // namespace warpline::server
