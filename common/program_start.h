// Mends what a program of ours inherits from its parent and cannot work with.
//
//   int main(int argc, char** argv) {
//     warpline::StartProgram();
//     ...
#ifndef WARPLINE_COMMON_PROGRAM_START_H_
#define WARPLINE_COMMON_PROGRAM_START_H_

namespace warpline {

// A program that links this opens /dev/null where descriptor 0, 1 or 2 is closed, before the
// constructors of its libraries. What the process opens later then never has these numbers, under
// which programs and libraries print. A program that it executes finds them closed, as it did
// itself.

// Gives SIGCHLD its default action: while it is ignored, the kernel forgets how children end. Call
// it first in main(), before there are other threads.
void StartProgram();

// Gives SIGCHLD the action again that this process inherited. For a child between fork and exec
// that runs a user's program. Async-signal-safe.
void RestoreInheritedSignals();

}  // namespace warpline

#endif  // WARPLINE_COMMON_PROGRAM_START_H_
