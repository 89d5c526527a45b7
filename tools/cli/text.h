// How the command line shows what servers said.
#ifndef WARPLINE_TOOLS_CLI_TEXT_H_
#define WARPLINE_TOOLS_CLI_TEXT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "proto/admin.pb.h"

namespace warpline::cli {

// Returns `text` without control characters: a program's name comes from a tenant and goes to
// somebody's terminal.
std::string Shown(const std::string& text);
// Returns a text such as "1.5 GiB".
std::string ShownBytes(uint64_t bytes);
// Returns a text such as "12s", "3m07s", "5h02m" or "3d04h".
std::string ShownAge(double seconds);
// Writes one JSON object with every field, whatever its value, by the names of the .proto file.
// Numbers of 64 bits are strings, as protobuf writes them.
std::string ToJson(const google::protobuf::Message& message);

// The numbers of a session's devices, such as "0,1"; "-" while it has none.
std::string ShownGpus(const warpline_internal::SessionStat& session);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TEXT_H_
