// Shared by host programs with several processes: reads from pipes and waits that end in time.
#ifndef WARPLINE_TESTS_HOSTS_PROGRAMS_PROCESSES_H_
#define WARPLINE_TESTS_HOSTS_PROGRAMS_PROCESSES_H_

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

enum { kProcessPatienceMs = 60000 };

// Reads a byte; -1 at the pipe's end, or when none comes.
static inline int AwaitByte(int input) {
  char byte = 0;
  struct pollfd wait = {input, POLLIN, 0};
  if (poll(&wait, 1, kProcessPatienceMs) != 1 || read(input, &byte, 1) != 1) return -1;
  return (unsigned char)byte;
}

// Returns the child's status as waitpid() gives it; kills a child that does not end.
static inline int AwaitChild(pid_t child) {
  int status = 0;
  for (int waited = 0; waited < kProcessPatienceMs; waited += 10) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    usleep(10000);
  }
  fprintf(stderr, "workload: process %d does not end\n", (int)child);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return status;
}

#endif  // WARPLINE_TESTS_HOSTS_PROGRAMS_PROCESSES_H_
