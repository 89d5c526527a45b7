#include "scheduler/etcd/elected_role.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/leader_hint.h"
#include "scheduler/etcd/etcd_key_value_store.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {
namespace {

// For a scheduler that only reads and so signs nothing.
class NoKeys : public KeyShelf {
 public:
  absl::StatusOr<std::string> Read() override { return std::string(); }
  absl::Status Write(const std::string&) override { return absl::OkStatus(); }
  std::string name() const override { return "no keys"; }
};

}  // namespace

ElectedRole::ElectedRole(ElectedRoleOptions options, EtcdClient* client)
    : options_(std::move(options)), client_(client) {}

void ElectedRole::Start(const std::string& address) {
  LeadershipOptions options;
  options.key = absl::StrCat(options_.prefix, kLeaderKey);
  options.address = address;
  options.ttl = options_.leader_ttl;
  options.clock = options_.scheduler.clock;
  options.lead = [this](const EtcdGuard& guard) { return Lead(guard); };
  options.follow = [this] { Follow(); };
  auto leadership = std::make_unique<Leadership>(std::move(options), client_);
  {
    MutexLock lock(&mu_);
    leadership_ = std::move(leadership);
  }
  leadership_->Start();
}

absl::Status ElectedRole::Lead(const EtcdGuard& guard) {
  auto store = Store::Open(std::make_unique<EtcdKeyValueStore>(
      client_, options_.prefix, guard,
      [this, guard](const std::string& why) { leadership_->GiveUp(guard, why); }));
  if (!store.ok()) return store.status();
  if ((*store)->operator_hash().empty()) {
    const auto status =
        (*store)->PutOperatorHash(HashCredential(options_.scheduler.operator_credential));
    if (!status.ok()) return status;
  }
  SchedulerOptions options = options_.scheduler;
  options.operator_hash = (*store)->operator_hash();
  auto keys = KeyRing::Open((*store)->SigningKeys(), options_.key_period, options.lost_after,
                            options.clock());
  if (!keys.ok()) return keys.status();
  auto scheduler = Scheduler::Create(std::move(options), *std::move(store), *std::move(keys));
  if (!scheduler.ok()) return scheduler.status();
  MutexLock lock(&mu_);
  leading_ = *std::move(scheduler);
  reading_ = nullptr;
  return absl::OkStatus();
}

void ElectedRole::Follow() {
  std::shared_ptr<Scheduler> ended;
  MutexLock lock(&mu_);
  ended.swap(leading_);
}

std::string ElectedRole::LeaderElsewhere() const {
  MutexLock lock(&mu_);
  return leading_ != nullptr || leadership_ == nullptr ? "" : leadership_->LeaderElsewhere();
}

absl::StatusOr<std::shared_ptr<Scheduler>> ElectedRole::Leading() {
  {
    MutexLock lock(&mu_);
    if (leading_ != nullptr) return leading_;
  }
  return AnotherScheduler(LeaderElsewhere());
}

absl::StatusOr<std::shared_ptr<Scheduler>> ElectedRole::Reading() {
  const absl::Time now = options_.scheduler.clock();
  {
    MutexLock lock(&mu_);
    if (leading_ != nullptr) return leading_;
    if (reading_ != nullptr && now - read_ < kReadingAge) return reading_;
  }
  auto store = Store::OpenToRead(std::make_unique<EtcdKeyValueStore>(client_, options_.prefix));
  if (!store.ok()) return absl::UnavailableError(store.status().message());
  SchedulerOptions options = options_.scheduler;
  options.operator_hash = (*store)->operator_hash();
  options.only_reads = true;
  auto keys = KeyRing::Open(std::make_unique<NoKeys>(), options_.key_period, options.lost_after,
                            options.clock());
  if (!keys.ok()) return keys.status();
  auto scheduler = Scheduler::Create(std::move(options), *std::move(store), *std::move(keys));
  if (!scheduler.ok()) return scheduler.status();
  std::shared_ptr<Scheduler> read = *std::move(scheduler);
  MutexLock lock(&mu_);
  reading_ = read;
  read_ = now;
  return read;
}

void ElectedRole::Housekeep() {
  std::shared_ptr<Scheduler> scheduler;
  {
    MutexLock lock(&mu_);
    scheduler = leading_;
  }
  if (scheduler != nullptr) scheduler->Housekeep();
}

}  // namespace warpline::scheduler
