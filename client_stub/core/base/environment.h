// The settings in the application's environment: Warpline's own variables, and those of CUDA that
// concern the driver. Read once, at the first call that needs it.
//
//   WARPLINE_ENDPOINT         where the server or scheduler is: "host:port" or "unix:/path"
//   WARPLINE_LEASE_KEY        what gets the lease's token from `warpline run`
//                             (common/lease/lease_key.h)
//   WARPLINE_TOKEN_FILE       the file with the lease's token, where it cannot be got so
//   WARPLINE_LEASE_FOLDER     the folder of `warpline hold` (common/lease_folder.h), for both of
//                             them where neither is set
//   WARPLINE_CREDENTIAL       the tenant's credential, for a scheduler as endpoint
//   WARPLINE_CREDENTIAL_FILE  a file with it, where the variable is not set
//   WARPLINE_SLICE            the slice that a scheduler as endpoint is to give
//   WARPLINE_TLS_*            an encrypted connection (common/serving/tls_files.h); read at
//                             dialling
//   WARPLINE_CONNECT_TIMEOUT  for how many seconds cuInit waits for a connection (5)
//   WARPLINE_RESUME_SECONDS   how long a lost connection is tried again (30; 0: not at all)
//   WARPLINE_WAIT_SECONDS     how long a call waits for the device before it returns
//                             CUDA_ERROR_TIMEOUT (for ever)
//   WARPLINE_TRANSFER         where the session may go on once it is open: "local", through shared
//                             memory or a socket of this host; "relay"; "0", nowhere; else wherever
//                             it can
//   WARPLINE_SHARE_MEMORY     "0": no memory is shared with a server on this host
//   WARPLINE_TIER             what keeps the session apart from others: "guarded", in a context
//                             that they share; "isolated" or unset, a process of its own; "auto",
//                             guarded unless something is known to stand in the way
//   WARPLINE_GUARD            how kernels are guarded: "fence", "hardened" or "report"; "off" or
//                             unset: not
//   WARPLINE_DRIVER_VERSION   what cuDriverGetVersion answers (13000)
//   WARPLINE_STAT             "1": counters on stderr at the end; else a file to append them to
//   CUDA_VISIBLE_DEVICES      the session's devices, in this order
//   CUDA_LAUNCH_BLOCKING      "1": each launch waits and reports
//
// Example:
//
//   const Environment env = ReadEnvironment();
//   if (env.visible.none) return CUDA_ERROR_NO_DEVICE;
//   options.endpoint = env.endpoint;
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_ENVIRONMENT_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_ENVIRONMENT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/cuda/visible_devices.h"
#include "proto/guard.h"
#include "proto/tier.h"

namespace warpline::stub {

struct Environment {
  std::string endpoint;
  std::string lease_key;
  std::string token_file;
  std::string credential;
  std::string credential_file;
  std::string slice;
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration resume = absl::Seconds(30);
  // How long a call that synchronizes waits for the device.
  absl::Duration wait_limit = absl::InfiniteDuration();
  bool transfer = true;  // To another address of this host.
  bool relays = true;    // Over UCX.
  bool share_memory = true;
  // None for a mode that does not exist.
  std::optional<GuardMode> guard = GuardMode::kOff;
  // None for a tier that does not exist.
  std::optional<TierChoice> tier = TierChoice::kIsolated;
  int driver_version = 13000;
  std::string stat;
  VisibleDevices visible;
  bool launch_blocking = false;
};

// Reads the process's environment. A number that does not parse leaves the default.
Environment ReadEnvironment();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_ENVIRONMENT_H_
