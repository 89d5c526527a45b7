#include "server/jail/jailer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/log/log.h"
#include "server/jail/device_files.h"
#include "server/jail/layers.h"

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

std::string Describe(const JailReport& report) {
  std::string text = absl::StrCat("holds=", absl::StrJoin(report.held(), ","));
  for (const auto& missing : report.missing()) {
    absl::StrAppend(&text, "; missing ", missing.layer(), " (", missing.why(), "; needs ",
                    Needs(missing.layer()), ")");
  }
  return text;
}

}  // namespace

Cell::~Cell() {
  if (plan_.uid() != 0) jailer_->uids_.GiveBack(plan_.uid());
}

void Cell::OnClosed(const JailReport& report) const { jailer_->Tell(plan_.profile(), report); }

Jailer::Jailer(JailerOptions options)
    : options_(options), uids_(options.uids), log_(kJailerLines) {}

void Jailer::AddDevice(int ordinal, const std::string& pci_bus_id) {
  device_files_[ordinal] = DeviceFilesOf({pci_bus_id});
}

absl::StatusOr<std::unique_ptr<Cell>> Jailer::NewCell(const std::string& profile,
                                                      const std::vector<int>& ordinals) {
  JailPlan plan;
  plan.set_profile(profile);
  plan.set_strict(options_.strict);
  std::vector<std::string> files;
  for (const int ordinal : ordinals) {
    const auto known = device_files_.find(ordinal);
    const auto& more = known == device_files_.end() ? AllDeviceFiles() : known->second;
    files.insert(files.end(), more.begin(), more.end());
  }
  for (const gid_t group : GroupsOf(files)) plan.add_groups(group);
  for (std::string& file : files) plan.add_device_files(std::move(file));
  plan.set_uid(uids_.Take());
  if (plan.uid() == 0 && !options_.uids.empty()) {
    return absl::ResourceExhaustedError("all user ids of --worker_uids are taken");
  }
  return std::unique_ptr<Cell>(new Cell(this, std::move(plan)));
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
