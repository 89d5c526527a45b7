// Opens a session of the tier that the program's user chose, and where that is left to us, of the
// one that the program can have.
#ifndef WARPLINE_CLIENT_STUB_CORE_TIER_TIER_OPENING_H_
#define WARPLINE_CLIENT_STUB_CORE_TIER_TIER_OPENING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client_stub/core/tier/tier_watch.h"
#include "client_stub/session/session.h"
#include "proto/tier.h"

namespace warpline::stub {

struct OpenedInTier {
  std::unique_ptr<Session> session;
  std::unique_ptr<TierWatch> watch;  // Null for a session of the isolated tier.
};

class TierOpening {
 public:
  struct Options {
    TierChoice choice = TierChoice::kIsolated;
    // What follows is for TierChoice::kAuto alone. The program and its files, which are asked for
    // only if they matter; and where the record of earlier runs is.
    std::function<std::string()> program;
    std::function<std::vector<std::string>()> files;
    std::string cache_folder;
  };
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Session>>(const SessionOptions&)>;

  TierOpening(Options options, Opener opener);

  // Sets the tier in `session` and opens it. With TierChoice::kAuto, a session that cannot be
  // guarded is isolated, and a line of the log says why. Errors are those of the opener.
  absl::StatusOr<OpenedInTier> Open(SessionOptions session) const;

 private:
  absl::StatusOr<OpenedInTier> OpenIsolated(SessionOptions session) const;
  absl::StatusOr<OpenedInTier> OpenGuarded(SessionOptions session) const;
  absl::StatusOr<OpenedInTier> OpenEither(const SessionOptions& session) const;

  const Options options_;
  const Opener opener_;
};

// Whether a session that was refused so in the guarded tier may open in the isolated one.
bool MayOpenIsolated(const absl::Status& refusal);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TIER_TIER_OPENING_H_
