// Turns the texts of servers into texts for a terminal.
#ifndef WARPLINE_TOOLS_CLI_TEXT_H_
#define WARPLINE_TOOLS_CLI_TEXT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/admin.pb.h"

namespace warpline::cli {

// Returns `text` with escapes such as \x1b, \n and \u202e for characters that a terminal would obey
// instead of showing. These are control characters, marks that change the direction of text, and
// bytes that are not UTF-8. A server's text may come from a tenant, or from a server that was taken
// over. A text that was shown already stays as it is.
std::string Shown(absl::string_view text);
// Does the same line by line.
std::string ShownLines(absl::string_view text);
// Does the same with every text of a message and of the messages in it. Functions that turn a
// message into text for a terminal begin with this.
void MakeShown(google::protobuf::Message* message);

// Writes "PROGRAM: TEXT" to stderr, shown line by line, and returns `code`. Every error of the
// command line goes this way: its text may be a server's.
int Complain(absl::string_view program, absl::string_view text, int code);
// Writes a line to stdout at once, so that a command that takes long can be followed.
void SayLine(const std::string& line);
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
