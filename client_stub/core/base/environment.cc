#include "client_stub/core/base/environment.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/cuda/visible_devices.h"
#include "common/lease/lease_key.h"
#include "common/lease_folder.h"
#include "common/version.h"
#include "proto/devices.h"

namespace warpline::stub {
namespace {

// Nothing in a program with more rights than its user (setuid, file capabilities): the user would
// choose which files it reads and writes, and whom it sends them to. Without an endpoint it has no
// device.
std::string Variable(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

// The value of a variable that may come from a file with a line end.
std::string Trimmed(const char* name) {
  return std::string(absl::StripAsciiWhitespace(Variable(name)));
}

// What the folder of `warpline hold` says, where the environment says nothing else.
HeldLease Held(const Environment& environment) {
  const std::string folder = Variable(kLeaseFolderVariable);
  const bool counts =
      !folder.empty() && environment.endpoint.empty() && environment.token_file.empty();
  return counts ? ReadLeaseFolder(folder) : HeldLease();
}

// The variable's value, or what the lease's folder has where it is not set.
std::string VariableOr(const char* name, const std::string& held) {
  const std::string value = Variable(name);
  return value.empty() ? held : value;
}

}  // namespace

Environment ReadEnvironment() {
  Environment environment;
  environment.endpoint = Trimmed("WARPLINE_ENDPOINT");
  environment.lease_key = Variable(kLeaseKeyVariable);
  environment.token_file = Variable("WARPLINE_TOKEN_FILE");
  const HeldLease held = Held(environment);
  if (!held.token_file.empty()) {
    environment.endpoint = held.endpoint;
    environment.lease_key.clear();
    environment.token_file = held.token_file;
  }
  environment.credential = Variable("WARPLINE_CREDENTIAL");
  environment.credential_file = Variable("WARPLINE_CREDENTIAL_FILE");
  environment.slice = Variable("WARPLINE_SLICE");
  environment.stat = Variable("WARPLINE_STAT");
  environment.visible =
      ParseVisibleDevices(secure_getenv("CUDA_VISIBLE_DEVICES"), kMaxSessionDevices);
  environment.launch_blocking = Variable("CUDA_LAUNCH_BLOCKING") == "1";
  double seconds;
  if (absl::SimpleAtod(Variable("WARPLINE_CONNECT_TIMEOUT"), &seconds) && seconds > 0) {
    environment.connect_timeout = absl::Seconds(seconds);
  }
  if (absl::SimpleAtod(Variable("WARPLINE_RESUME_SECONDS"), &seconds) && seconds >= 0) {
    environment.resume = absl::Seconds(seconds);
  }
  if (absl::SimpleAtod(Variable("WARPLINE_WAIT_SECONDS"), &seconds) && seconds >= 0) {
    environment.wait_limit = absl::Seconds(seconds);
  }
  const std::string transfer = Variable("WARPLINE_TRANSFER");
  environment.transfer = transfer != "0" && transfer != "relay";
  environment.relays = transfer != "0" && transfer != "local";
  environment.share_memory = Variable("WARPLINE_SHARE_MEMORY") != "0";
  const std::string guard = Variable("WARPLINE_GUARD");
  environment.guard = guard.empty() ? GuardMode::kOff : ParseGuardMode(guard);
  const std::string tier = VariableOr("WARPLINE_TIER", held.tier);
  environment.tier = tier.empty() ? TierChoice::kIsolated : ParseTierChoice(tier);
  int version;
  if (!absl::SimpleAtoi(VariableOr("WARPLINE_DRIVER_VERSION", held.driver_version), &version) ||
      version <= 0) {
    version = kCudaVersion;
  }
  environment.driver_version = version;
  return environment;
}

}  // namespace warpline::stub
