// Known ways in which a client could harm a server, each played round after round by a client of
// its own. Every one of them did harm once.
#ifndef WARPLINE_TESTS_HOSTILE_SEQUENCE_H_
#define WARPLINE_TESTS_HOSTILE_SEQUENCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace warpline::hostile {

struct Sequence {
  const char* name;
  const char* what;  // The client's actions, and the harm that they once did.
  // Plays round `round` against the server at `endpoint`. OK when the server answered as it should,
  // a refusal included; otherwise what was seen instead.
  absl::Status (*play)(const std::string& endpoint, int round);
};

absl::Span<const Sequence> Sequences();  // All of them.

// Makes a memory request whose chunks come while the session has lost its worker, and reads back
// what is left of it.
absl::Status PlayReadBackRace(const std::string& endpoint, int round);

// Creates as many streams as a session may have, each a thread of the worker, and then some more.
absl::Status PlayManyStreams(const std::string& endpoint, int round);

}  // namespace warpline::hostile

#endif  // WARPLINE_TESTS_HOSTILE_SEQUENCE_H_
