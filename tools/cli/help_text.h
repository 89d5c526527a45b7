// The texts of `warpline --help` and `warpline COMMAND --help`.
#ifndef WARPLINE_TOOLS_CLI_HELP_TEXT_H_
#define WARPLINE_TOOLS_CLI_HELP_TEXT_H_

#include <string>

namespace warpline::cli {

// Returns the text about all commands.
std::string HelpText();
// Returns the text about one command, such as "tenant"; empty for a word that is no command.
std::string HelpText(const std::string& command);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_HELP_TEXT_H_
