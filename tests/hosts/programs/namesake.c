// A library that calls itself libprotobuf.so.32 and has nothing else in common with it.
#include <stdio.h>
#include <stdlib.h>

int namesake_answer(void) { return 42; }

#define IMPOSTOR(name)                                 \
  void name(void) {                                    \
    fputs("workload: " #name " was called\n", stderr); \
    abort();                                           \
  }
IMPOSTOR(_ZN6google8protobuf8internal13VerifyVersionEiiPKc)
IMPOSTOR(_ZN6google8protobuf8internal9OnShutdownEPFvvE)
IMPOSTOR(_ZN6google8protobuf11MessageLiteD2Ev)
