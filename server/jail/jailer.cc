#include "server/jail/jailer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/log/log.h"
#include "server/jail/device_files.h"
#include "server/jail/layers.h"
#include "server/jail/profiles.h"

namespace warpline::jail {
namespace {

using warpline_internal::JailPlan;
using warpline_internal::JailReport;

enum JailerLine : size_t { kReportLine, kJailerLineCount };
constexpr LogKind kJailerLines[kJailerLineCount] = {{"jail_reports", 10, absl::Minutes(1)}};

std::string Needs(const std::string& name) {
  const auto layer = LayerNamed(name);
  return layer.has_value() ? SpecOf(*layer).needs : "";
}

absl::StatusOr<std::unique_ptr<Cgroups>> Manage(const JailerOptions& options) {
  const std::string& cgroup = options.cgroup;
  if (cgroup == "none") return absl::FailedPreconditionError("--worker_cgroup=none");
  return cgroup == "auto" ? Cgroups::ManageOwn(options.companion) : Cgroups::Manage(cgroup);
}

std::string Describe(const JailReport& report) {
  std::string text = absl::StrCat("holds=", absl::StrJoin(report.held(), ","));
  for (const auto& missing : report.missing()) {
    absl::StrAppend(&text, "; missing ", missing.layer(), " (", missing.why(), "; needs ",
                    Needs(missing.layer()), ")");
  }
  return text;
}

}  // namespace

absl::Status Cell::Confine(pid_t process) {
  if (group_ != nullptr) confined_ = group_->Add(process);
  if (confined_.ok() || !plan_.strict()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the layer cgroup of the jail cannot be closed: ", confined_.message(),
                   "; it needs ", SpecOf(Layer::kCgroup).needs));
}

void Cell::OnClosed(JailReport report) const {
  const char* const name = SpecOf(Layer::kCgroup).name;
  if (confined_.ok()) {
    report.add_held(name);
  } else {
    auto* const missing = report.add_missing();
    missing->set_layer(name);
    missing->set_why(std::string(confined_.message()));
  }
  jailer_->Tell(plan_.profile(), report);
}

Jailer::Jailer(JailerOptions options)
    : options_(std::move(options)),
      uids_(options_.uids),
      groups_(Manage(options_)),
      log_(kJailerLines) {}

void Jailer::AddDevice(int ordinal, const std::string& pci_bus_id) {
  Gpu gpu = {pci_bus_id, DeviceFilesOf({pci_bus_id})};
  MutexLock lock(&mu_);
  gpus_[ordinal] = std::move(gpu);
}

void Jailer::SelectDevice(int ordinal, Selected device) {
  MutexLock lock(&mu_);
  gpus_[ordinal] = {std::move(device.pci_bus_id), std::move(device.files), std::move(device.uuid),
                    device.is_instance};
}

bool Jailer::Together(const std::vector<int>& ordinals) {
  if (ordinals.size() < 2) return true;
  MutexLock lock(&mu_);
  for (const int ordinal : ordinals) {
    const auto known = gpus_.find(ordinal);
    if (known != gpus_.end() && known->second.is_instance) return false;
  }
  return true;
}

std::vector<std::string> Jailer::AddDevices(const std::vector<int>& ordinals,
                                            warpline_internal::JailPlan* plan) {
  std::vector<std::string> files;
  MutexLock lock(&mu_);
  for (const int ordinal : ordinals) {
    const auto known = gpus_.find(ordinal);
    const Gpu gpu = known == gpus_.end() ? Gpu{"", AllDeviceFiles()} : known->second;
    plan->add_pci_bus_ids(gpu.pci_bus_id);
    if (!gpu.uuid.empty()) {
      std::string* const visible = plan->mutable_visible_devices();
      if (!visible->empty()) visible->push_back(',');
      visible->append(gpu.uuid);
    }
    files.insert(files.end(), gpu.files.begin(), gpu.files.end());
  }
  return files;
}

Cell::User Jailer::NewUser() {
  return Cell::User(new uint32_t(uids_.Take()), [this](const uint32_t* uid) {
    if (*uid != 0) uids_.GiveBack(*uid);
    delete uid;
  });
}

absl::StatusOr<std::unique_ptr<Cell>> Jailer::NewCell(const CellRequest& request) {
  if (!Together(request.ordinals)) {
    return absl::FailedPreconditionError(
        "a MIG instance is used alone: CUDA shows no other device beside it");
  }
  JailPlan plan;
  plan.set_profile(request.profile);
  plan.set_strict(options_.strict);
  std::vector<std::string> files = AddDevices(request.ordinals, &plan);
  for (const gid_t group : GroupsOf(files)) plan.add_groups(group);
  for (std::string& file : files) plan.add_device_files(std::move(file));
  for (const auto& folder : request.folders) *plan.add_folders() = folder;
  Cell::User user = request.same_user == nullptr ? NewUser() : request.same_user->user_;
  plan.set_uid(*user);
  if (plan.uid() == 0 && !options_.uids.empty()) {
    return absl::ResourceExhaustedError("all user ids of --worker_uids are taken");
  }
  std::unique_ptr<Cell> cell(new Cell(this, std::move(plan), std::move(user)));
  if (!groups_.ok()) {
    cell->confined_ = groups_.status();
    return cell;
  }
  GroupLimits limits = options_.limits;
  // A stage of the compiler may end without the process that has forked it.
  limits.ends_together = request.profile != kCompilerProfile;
  auto group = (*groups_)->NewGroup(absl::StrCat(request.profile, ".", ++cells_), limits);
  if (group.ok()) {
    cell->group_ = *std::move(group);
  } else {
    cell->confined_ = group.status();
  }
  return cell;
}

void Jailer::Tell(const std::string& profile, const JailReport& report) {
  std::string text = Describe(report);
  MutexLock lock(&mu_);
  std::string& told = told_[profile];
  if (told == text) return;
  told = std::move(text);
  const LogPermit permit = log_.Ask(kReportLine);
  if (!permit) return;
  if (report.missing().empty()) {
    permit.Info("jail profile=", profile, " ", told);
  } else {
    permit.Warning("jail profile=", profile, " ", told);
  }
}

}  // namespace warpline::jail
