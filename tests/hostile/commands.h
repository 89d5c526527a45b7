// Commands as a hostile client would make them.
#ifndef WARPLINE_TESTS_HOSTILE_COMMANDS_H_
#define WARPLINE_TESTS_HOSTILE_COMMANDS_H_

#include <cstdint>
#include <random>
#include <string>

#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::hostile {

using Random = std::mt19937_64;

// Appends a command of a random kind with the right length and random fields: handles that may
// exist, sizes and addresses that may make sense.
void AppendRandomCommand(Random& random, std::string* commands);

// Returns a kCommands payload of `count` commands from number `first_seq`.
std::string CommandsPayload(uint64_t first_seq, uint32_t count, const std::string& commands);

// Flips, cuts, repeats or overwrites some bytes.
void Mutate(Random& random, std::string* bytes);

}  // namespace warpline::hostile

#endif  // WARPLINE_TESTS_HOSTILE_COMMANDS_H_
