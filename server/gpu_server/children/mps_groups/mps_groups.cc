#include "server/gpu_server/children/mps_groups/mps_groups.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/text.h"

namespace warpline::server {
namespace {

enum MpsLine : size_t { kBeganLine, kOverLine, kMpsLineCount };
constexpr LogKind kEach[kMpsLineCount] = {{"mps_groups_begin", 10, absl::Minutes(1)},
                                          {"mps_daemons_end", 10, absl::Minutes(1)}};
constexpr LogKind kAll[kMpsLineCount] = {{"mps_groups_begin", 100, absl::Seconds(10)},
                                         {"mps_daemons_end", 100, absl::Seconds(10)}};

KeyedLogBudgetOptions LogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  return options;
}

}  // namespace

std::string TrustGroupOf(const std::string& payer) {
  if (absl::StartsWith(payer, "ipv4:") || absl::StartsWith(payer, "ipv6:")) return "";
  return payer;
}

// A group's daemon and the memberships of its workers. The memberships and the table of groups
// share it.
class MpsGroup : public std::enable_shared_from_this<MpsGroup> {
 public:
  MpsGroup(MpsGroups* owner, EventLoop* control, MpsGroupKey key)
      : owner_(owner), control_(control), key_(std::move(key)) {}

  const MpsGroupKey& key() const { return key_; }
  bool over() const RUNS_ON(control_loop) { return over_.has_value(); }
  bool was_ready() const RUNS_ON(control_loop) { return ready_; }

  void Start(EventLoop* spawner, const MpsOptions& options, std::string folder)
      RUNS_ON(control_loop) {
    process_ = std::make_shared<MpsProcess>(control_, spawner);
    MpsProcess::Events events;
    events.ready = [this] {
      control_loop.AssertOnLoop();
      OnReady();
    };
    events.over = [this](const std::string& why) {
      control_loop.AssertOnLoop();
      OnOver(why);
    };
    // Keeps the group until nothing more comes.
    events.gone = [self = shared_from_this()] {
      control_loop.AssertOnLoop();
      self->owner_->OnGone(self.get());
    };
    process_->Start(options, key_.ordinal, std::move(folder), std::move(events));
  }
  void End() RUNS_ON(control_loop) {
    StopTimer();
    if (!over_.has_value()) over_ = "it was ended";
    process_->End();
  }

  // Calls `what` on the loop after a while, unless a worker joins first.
  void After(absl::Duration delay, std::function<void()> what) RUNS_ON(control_loop) {
    StopTimer();
    timer_ = control_->RunAfter(delay, std::move(what));
  }
  void StopTimer() RUNS_ON(control_loop) { control_->Remove(std::exchange(timer_, 0)); }

  void Join(MpsMembership* membership) RUNS_ON(control_loop) {
    if (!over_.has_value()) StopTimer();
    memberships_.push_back(membership);
  }
  void Leave(MpsMembership* membership) RUNS_ON(control_loop) {
    std::erase(memberships_, membership);
    if (memberships_.empty() && !over_.has_value()) owner_->OnIdle(this);
  }
  void AnswerSoon(std::weak_ptr<MpsMembership> waiting) RUNS_ON(control_loop) {
    control_->Post([self = shared_from_this(), waiting = std::move(waiting)] {
      control_loop.AssertOnLoop();
      if (const auto membership = waiting.lock()) self->Answer(membership.get());
    });
  }
  bool HasFailed() const RUNS_ON(control_loop) {
    return std::any_of(memberships_.begin(), memberships_.end(),
                       [](const MpsMembership* membership) {
                         return membership->member_.failed && membership->member_.failed();
                       });
  }
  // Tells the membership what it waits for, if that is known.
  void Answer(MpsMembership* membership) RUNS_ON(control_loop) {
    if (!ready_ && !over_.has_value()) return;
    const auto ready = std::exchange(membership->ready_, nullptr);
    if (ready == nullptr) return;
    ready(over_.has_value() ? absl::UnavailableError(absl::StrCat("no MPS daemon: ", *over_))
                            : absl::OkStatus());
  }

  pid_t server() const RUNS_ON(control_loop) { return process_->server(); }
  MpsTerms terms() const RUNS_ON(control_loop) {
    const std::string& folder = process_->folder();
    MpsTerms terms;
    terms.environment = {{"CUDA_MPS_PIPE_DIRECTORY", folder + "/pipe"},
                         {"CUDA_MPS_LOG_DIRECTORY", folder + "/log"}};
    terms.folders.emplace_back().set_path(folder + "/pipe");
    terms.cell = process_->cell();
    return terms;
  }

 private:
  // Calls `what` for each membership that is still there by then.
  void ForEachMembership(const std::function<void(MpsMembership*)>& what) RUNS_ON(control_loop) {
    for (MpsMembership* const membership : std::vector<MpsMembership*>(memberships_)) {
      if (std::find(memberships_.begin(), memberships_.end(), membership) != memberships_.end())
        what(membership);
    }
  }
  void OnReady() RUNS_ON(control_loop) {
    ready_ = true;
    ForEachMembership([this](MpsMembership* membership) {
      control_loop.AssertOnLoop();
      Answer(membership);
    });
  }
  void OnOver(const std::string& why) RUNS_ON(control_loop) {
    const auto self = shared_from_this();
    StopTimer();
    over_ = why;
    owner_->OnOver(this, why);
    ForEachMembership([this, &why](MpsMembership* membership) {
      control_loop.AssertOnLoop();
      if (membership->ready_ != nullptr) return Answer(membership);
      if (const auto over = std::exchange(membership->over_, nullptr)) over(why);
    });
  }

  MpsGroups* const owner_;
  EventLoop* const control_;
  const MpsGroupKey key_;
  std::shared_ptr<MpsProcess> process_ ABSL_GUARDED_BY(control_loop);
  std::vector<MpsMembership*> memberships_ ABSL_GUARDED_BY(control_loop);
  bool ready_ ABSL_GUARDED_BY(control_loop) = false;
  std::optional<std::string> over_ ABSL_GUARDED_BY(control_loop);  // Why.
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

MpsMembership::MpsMembership(std::shared_ptr<MpsGroup> group, MpsMember member)
    : group_(std::move(group)), member_(std::move(member)) {
  control_loop.AssertOnLoop();
  group_->Join(this);
}

MpsMembership::~MpsMembership() {
  control_loop.AssertOnLoop();
  group_->Leave(this);
}

void MpsMembership::WhenReady(std::function<void(const absl::Status&)> ready) {
  ready_ = std::move(ready);
  group_->AnswerSoon(weak_from_this());
}

pid_t MpsMembership::server() const { return group_->server(); }

MpsTerms MpsMembership::terms() const {
  MpsTerms terms = group_->terms();
  if (limited()) {
    terms.environment.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                   absl::StrCat(member_.sm_percent));
  }
  return terms;
}

MpsGroups::MpsGroups(EventLoop* control, EventLoop* spawner, MpsOptions options)
    : control_(control), spawner_(spawner), options_(std::move(options)), log_(LogOptions()) {}

MpsGroups::~MpsGroups() = default;

std::shared_ptr<MpsMembership> MpsGroups::Join(const MpsGroupKey& key, MpsMember member) {
  std::shared_ptr<MpsGroup>& group = groups_[key];
  if (group != nullptr && group->HasFailed()) group = nullptr;
  if (group == nullptr) {
    group = std::make_shared<MpsGroup>(this, control_, key);
    living_.push_back(group);
    if (const LogPermit permit = log_.Ask(key.trust, kBeganLine)) {
      permit.Info(
          "an MPS group begins, whose jail is weaker: its workers share a user, memory and ",
          "faults, and reach the sockets of their daemon; payer=", Quoted(key.trust),
          " gpu=", key.ordinal);
    }
    group->Start(spawner_, options_, absl::StrCat(options_.folder, "/", ++last_folder_));
  }
  return std::shared_ptr<MpsMembership>(new MpsMembership(group, std::move(member)));
}

void MpsGroups::Forget(MpsGroup* group) {
  const auto found = groups_.find(group->key());
  if (found != groups_.end() && found->second.get() == group) groups_.erase(found);
}

void MpsGroups::OnIdle(MpsGroup* group) {
  group->After(options_.idle, [this, group] {
    control_loop.AssertOnLoop();
    group->End();
    Forget(group);
  });
}

void MpsGroups::OnOver(MpsGroup* group, const std::string& why) {
  if (const LogPermit permit = log_.Ask(group->key().trust, kOverLine)) {
    permit.Warning(group->was_ready() ? "an MPS daemon has ended" : "an MPS daemon does not start",
                   " payer=", Quoted(group->key().trust), " gpu=", group->key().ordinal,
                   " error=", Quoted(why),
                   group->was_ready()
                       ? ""
                       : "; workers start without one, "
                         "but for those with a part of the multiprocessors, which do not start");
  }
  if (group->was_ready()) return Forget(group);
  // Whoever comes soon would wait for nothing.
  group->After(options_.retry, [this, self = group->shared_from_this()] {
    control_loop.AssertOnLoop();
    Forget(self.get());
  });
}

void MpsGroups::OnGone(MpsGroup* group) {
  std::erase_if(living_, [group](const auto& living) { return living.get() == group; });
  if (living_.empty() && stopped_) std::exchange(stopped_, nullptr)();
}

void MpsGroups::Stop(std::function<void()> stopped) {
  for (const auto& [key, group] : groups_) group->StopTimer();
  groups_.clear();
  for (const auto& group : std::vector<std::shared_ptr<MpsGroup>>(living_)) group->End();
  if (living_.empty()) return stopped();
  stopped_ = std::move(stopped);
}

}  // namespace warpline::server
