#include "server/jail/jail.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/jail/file_rules.h"
#include "server/jail/layers_off.h"
#include "server/jail/privileges.h"
#include "server/jail/system_call_filter.h"

namespace warpline::jail {

Jail::Jail(warpline_internal::JailPlan plan)
    : plan_(std::move(plan)), profile_(ProfileNamed(plan_.profile())) {}

bool Jail::Holds(Layer layer) const {
  const auto& held = report_.held();
  return std::find(held.begin(), held.end(), SpecOf(layer).name) != held.end();
}

void Jail::Miss(const std::string& layer, const absl::Status& why) {
  for (const auto& missing : report_.missing()) {
    if (missing.layer() == layer) return;
  }
  auto* const missing = report_.add_missing();
  missing->set_layer(layer);
  missing->set_why(std::string(why.message()));
}

absl::Status Jail::CloseLayer(const Step& step) {
  if (!profile_->layers.Has(step.layer)) return absl::OkStatus();
  const LayerSpec& spec = SpecOf(step.layer);
  const bool off = LayersOff().Has(step.layer);
  const absl::Status status = off ? absl::CancelledError("turned off") : step.close();
  if (status.ok()) {
    if (!Holds(step.layer)) report_.add_held(spec.name);
    return absl::OkStatus();
  }
  Miss(spec.name, status);
  if (off || !(spec.always || plan_.strict())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the layer ", spec.name, " of the jail cannot be closed: ", status.message(),
                   "; it needs ", spec.needs));
}

std::vector<GivenPath> Jail::GivenPaths() const {
  std::vector<GivenPath> given;
  for (const std::string& file : plan_.device_files()) {
    given.push_back({file, FileAccess::kReadWrite});
  }
  for (const auto& folder : plan_.folders()) {
    const FileAccess access = folder.executes() ? FileAccess::kExecute
                              : folder.makes()  ? FileAccess::kMake
                                                : FileAccess::kReadWrite;
    given.push_back({folder.path(), access});
  }
  return given;
}

std::vector<std::string> Jail::WritableFolders() const {
  std::vector<std::string> folders;
  for (const auto& folder : plan_.folders()) {
    if (folder.makes()) folders.push_back(folder.path());
  }
  return folders;
}

absl::Status Jail::CloseBeforeDriver() {
  if (profile_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no jail is called ", plan_.profile()));
  }
  const bool has_instance = plan_.visible_devices().rfind("MIG-", 0) == 0;
  if (!plan_.visible_devices().empty() &&
      setenv("CUDA_VISIBLE_DEVICES", plan_.visible_devices().c_str(), 1) != 0) {
    return absl::ResourceExhaustedError("no memory for the environment");
  }
  const std::vector<gid_t> groups(plan_.groups().begin(), plan_.groups().end());
  const std::vector<GivenPath> given = GivenPaths();
  const ListenPorts listens = {profile_->listens, plan_.first_port(), plan_.last_port()};
  // Whatever needs a right comes before it is given up. Root enters namespaces, and then becomes
  // the process's user; others get the right to enter them from a user namespace, into which the
  // process goes as who it is to be.
  const bool own_user = plan_.uid() != 0;
  const bool by_user_namespace = !own_user || !MayAdminister();
  const Step become_user = {Layer::kIdentity, [&] { return BecomeUser(plan_.uid(), groups); }};
  std::vector<Step> steps = {{Layer::kLimits, [&] {
                                absl::Status status = LowerLimits(profile_->limits);
                                if (!profile_->nested) status.Update(GoBeforeTheServer());
                                return status;
                              }}};
  if (!own_user) {
    steps.push_back({Layer::kIdentity, &EnterUserNamespace});
  } else if (by_user_namespace) {
    steps.push_back(become_user);
  }
  steps.push_back({Layer::kNamespaces, [&] {
                     absl::Status status;
                     if (own_user && by_user_namespace) status = EnterUserNamespace();
                     status.Update(EnterNamespaces(/*keep_network=*/profile_->listens));
                     return status;
                   }});
  steps.push_back({Layer::kMounts, [&] {
                     // Without its own they are those of the host.
                     if (Holds(Layer::kNamespaces)) return MakeMountsReadOnly(WritableFolders());
                     return absl::FailedPreconditionError("the layer namespaces is missing");
                   }});
  steps.push_back({Layer::kCapabilities, &DropCapabilityBounds});
  if (!by_user_namespace) steps.push_back(become_user);
  steps.push_back({Layer::kCapabilities, &DropCapabilities});
  steps.push_back({Layer::kUndumpable, &MakeUndumpable});
  steps.push_back({Layer::kFiles, [&] {
                     if (profile_->nested) return RefuseFiles();
                     if (!has_instance) return RestrictFiles(profile_->files, given, listens);
                     // The files that give the GPU's other instances are not its own.
                     std::vector<FileRule> files(profile_->files.begin(), profile_->files.end());
                     std::erase_if(files, [](const FileRule& rule) {
                       return absl::string_view(rule.path) == "/dev/nvidia-caps";
                     });
                     return RestrictFiles(files, given, listens);
                   }});
  for (const Step& step : steps) {
    const absl::Status status = CloseLayer(step);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Jail::CloseBeforeTenants() {
  return CloseLayer({Layer::kSystemCalls, [this] { return FilterSystemCalls(*profile_); }});
}

}  // namespace warpline::jail
