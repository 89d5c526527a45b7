// For programs that a test holds: they go on until the test lets them go, however long that takes.
//
//   --held: the program says `NAME: goes on` once it is past its start, and goes on until its
//   standard input ends (tests/harness.py: start_held()).
#ifndef WARPLINE_EXAMPLES_HELD_H_
#define WARPLINE_EXAMPLES_HELD_H_

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

inline bool IsHeldFlag(const char* argument) { return std::strcmp(argument, "--held") == 0; }

inline void SayThatItGoesOn(const char* name) {
  std::printf("%s: goes on\n", name);
  std::fflush(stdout);
}

// Whether the test has not let the program go yet. Does not wait.
inline bool IsHeld() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) == 0;
}

// Waits for the test to write a line, or to let the program go; then it returns false.
inline bool AwaitStep() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1) {
    if (byte == '\n') return true;
  }
  return false;
}

#endif  // WARPLINE_EXAMPLES_HELD_H_
