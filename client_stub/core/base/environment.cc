#include "client_stub/core/base/environment.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
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

bool NamesDevice(absl::string_view entry) {
  if (absl::ConsumePrefix(&entry, "GPU-")) return !entry.empty();
  int ordinal;
  return absl::SimpleAtoi(entry, &ordinal) && ordinal >= 0;
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

VisibleDevices ParseVisibleDevices(const char* value) {
  VisibleDevices visible;
  if (value == nullptr) return visible;
  std::vector<absl::string_view> named;
  for (absl::string_view entry : absl::StrSplit(value, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    if (!NamesDevice(entry)) break;
    if (std::find(named.begin(), named.end(), entry) != named.end()) {
      visible.none = true;
      return visible;
    }
    if (named.size() < kMaxSessionDevices) named.push_back(entry);
  }
  visible.none = named.empty();
  visible.device = absl::StrJoin(named, ",");
  return visible;
}

std::string ReadSecretFile(const std::string& path) {
  constexpr std::streamsize kMaxSecret = 4096;
  std::string text(kMaxSecret, '\0');
  std::ifstream file(path);
  file.read(text.data(), kMaxSecret);
  text.resize(static_cast<size_t>(file.gcount()));
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

Environment ReadEnvironment() {
  Environment environment;
  environment.endpoint = Variable("WARPLINE_ENDPOINT");
  environment.token_file = Variable("WARPLINE_TOKEN_FILE");
  const HeldLease held = Held(environment);
  if (!held.token_file.empty()) {
    environment.endpoint = held.endpoint;
    environment.token_file = held.token_file;
  }
  environment.credential = Variable("WARPLINE_CREDENTIAL");
  environment.credential_file = Variable("WARPLINE_CREDENTIAL_FILE");
  environment.slice = Variable("WARPLINE_SLICE");
  environment.stat = Variable("WARPLINE_STAT");
  environment.visible = ParseVisibleDevices(secure_getenv("CUDA_VISIBLE_DEVICES"));
  environment.launch_blocking = Variable("CUDA_LAUNCH_BLOCKING") == "1";
  double seconds;
  if (absl::SimpleAtod(Variable("WARPLINE_CONNECT_TIMEOUT"), &seconds) && seconds > 0) {
    environment.connect_timeout = absl::Seconds(seconds);
  }
  if (absl::SimpleAtod(Variable("WARPLINE_RESUME_SECONDS"), &seconds) && seconds >= 0) {
    environment.resume = absl::Seconds(seconds);
  }
  const std::string transfer = Variable("WARPLINE_TRANSFER");
  environment.transfer = transfer != "0" && transfer != "ucx";
  environment.lanes = transfer != "0" && transfer != "local";
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
