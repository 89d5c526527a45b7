#include "common/serving/serving.h"

#include <cstdio>
#include <exception>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

// A connection that is silent has a thread until its time is over.
constexpr const char* kMetricsThreads = "16";
constexpr const char* kMostMetricsRequestBytes = "8192";

}  // namespace

absl::Status WritePortFile(const std::string& path, int port) {
  const std::string part = path + ".part";
  std::ofstream(part, std::ios::trunc) << port << "\n";
  if (rename(part.c_str(), path.c_str()) != 0) {
    return absl::InternalError(absl::StrCat("cannot write --port_file=", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<prometheus::Exposer>> ExposeMetrics(
    const std::string& address, const std::shared_ptr<prometheus::Collectable>& metrics,
    absl::Duration patience) {
  if (address.empty()) return nullptr;
  // A connection is for one request, so that nobody keeps a thread by being silent between two.
  const std::vector<std::string> options = {
      "listening_ports",    address,
      "num_threads",        kMetricsThreads,
      "request_timeout_ms", absl::StrCat(absl::ToInt64Milliseconds(patience)),
      "enable_keep_alive",  "no",
      "max_request_size",   kMostMetricsRequestBytes};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(options);
    exposer->RegisterCollectable(metrics);
    return exposer;
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on --admin_listen=", address, ": ", error.what()));
  }
}

}  // namespace warpline
