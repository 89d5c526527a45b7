// The parts that Warpline's servers share once they run.
#ifndef WARPLINE_COMMON_SERVING_SERVING_H_
#define WARPLINE_COMMON_SERVING_SERVING_H_

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpline {

// Writes the port to the file of --port_file in one step, so that a program that waits for the file
// never reads half of it. INTERNAL when it cannot be written.
absl::Status WritePortFile(const std::string& path, int port);

// Serves the metrics on the address of --admin_listen for as long as the result and `metrics` live,
// which the caller keeps. A connection that has sent no whole request within `patience` is closed:
// sixteen are served at a time, and others wait. Returns null for an empty address; UNAVAILABLE
// when it cannot listen there.
absl::StatusOr<std::unique_ptr<prometheus::Exposer>> ExposeMetrics(
    const std::string& address, const std::shared_ptr<prometheus::Collectable>& metrics,
    absl::Duration patience = absl::Seconds(2));

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_SERVING_H_
