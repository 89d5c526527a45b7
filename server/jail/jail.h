// The jail around a worker or a keeper, closed by the process itself: it is trusted until the first
// byte of a tenant, and takes away from itself before what it will not need.
//
//   jail::Jail jail(plan);                                   // While the process has one thread.
//   if (auto status = jail.CloseBeforeDriver(); !status.ok()) return status;
//   <open the devices>
//   if (auto status = jail.CloseBeforeTenants(); !status.ok()) return status;
//   <execute what tenants send>
//
// docs/security.md says what each layer gives, and what all together do not.
#ifndef WARPLINE_SERVER_JAIL_JAIL_H_
#define WARPLINE_SERVER_JAIL_JAIL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/worker.pb.h"
#include "server/jail/file_rules.h"
#include "server/jail/layers.h"
#include "server/jail/profiles.h"

namespace warpline::jail {

// Used by one thread.
class Jail {
 public:
  // Without a profile of the plan's name nothing is closed, and CloseBeforeDriver() returns
  // INVALID_ARGUMENT.
  explicit Jail(warpline_internal::JailPlan plan);

  // Closes the layers that restrict the calling thread and those that it starts, so the process
  // must have one thread. Files that the driver needs are in the profile. Returns an error for a
  // layer that every system has, and where the plan is strict for any; otherwise what could not be
  // closed is in the report.
  absl::Status CloseBeforeDriver();

  // Closes the rest, for all threads. Errors as CloseBeforeDriver().
  absl::Status CloseBeforeTenants();

  // What holds and what does not, so far.
  const warpline_internal::JailReport& report() const { return report_; }

 private:
  // A layer may have several.
  struct Step {
    Layer layer;
    std::function<absl::Status()> close;
  };

  // The files and folders that the plan names.
  std::vector<GivenPath> GivenPaths() const;
  // Those of them in which it may make files.
  std::vector<std::string> WritableFolders() const;
  bool Holds(Layer layer) const;
  void Miss(const std::string& layer, const absl::Status& why);
  absl::Status CloseLayer(const Step& step);

  const warpline_internal::JailPlan plan_;
  const Profile* const profile_;
  warpline_internal::JailReport report_;
};

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_JAIL_H_
