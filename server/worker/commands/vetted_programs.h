// The device code that a session may run which may bring none of its own: images that the operator
// vetted, by their hashes (docs/operations.md).
//
// The check is made in the session's own worker. It holds against what a tenant sends, and not
// against a worker that the tenant has taken over (docs/security.md).
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_VETTED_PROGRAMS_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_VETTED_PROGRAMS_H_

#include <set>
#include <string_view>
#include <utility>

#include "common/crypto/content_hash.h"
#include "proto/commands.h"

namespace warpline::worker {

// Thread-compatible.
class VettedPrograms {
 public:
  explicit VettedPrograms(std::set<ContentHash> images) : images_(std::move(images)) {}

  // Returns true if the image is one of them. Hashes all of it.
  bool Has(std::string_view image) const;
  // Returns true if a session that runs only these may use the command although it lacks the right
  // to load: to bring an image, to load it, and to ask what it has.
  static bool Allow(CommandId id);
  // Returns true if the command runs code of the server's that is not among them, and is refused
  // although the session may launch.
  static bool RunsOtherCode(CommandId id) { return id == CommandId::kLibraryCall; }

 private:
  std::set<ContentHash> images_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_VETTED_PROGRAMS_H_
