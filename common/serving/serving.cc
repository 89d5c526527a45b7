#include "common/serving/serving.h"

#include <cstdio>
#include <exception>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace warpline {

absl::Status WritePortFile(const std::string& path, int port) {
  const std::string part = path + ".part";
  std::ofstream(part, std::ios::trunc) << port << "\n";
  if (rename(part.c_str(), path.c_str()) != 0) {
    return absl::InternalError(absl::StrCat("cannot write --port_file=", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<prometheus::Exposer>> ExposeMetrics(
    const std::string& address, const std::shared_ptr<prometheus::Collectable>& metrics) {
  if (address.empty()) return nullptr;
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, 2);
    exposer->RegisterCollectable(metrics);
    return exposer;
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on --admin_listen=", address, ": ", error.what()));
  }
}

}  // namespace warpline
