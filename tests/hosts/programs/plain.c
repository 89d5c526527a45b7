// A C program that checks what a guest may not touch in it: signals, the environment, open
// descriptors.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

extern char** environ;

static void OnSignal(int number) { (void)number; }

static int CountVariables(void) {
  int count = 0;
  while (environ[count] != NULL) ++count;
  return count;
}

int main(void) {
  struct sigaction before[NSIG];
  // The system fills only the first bytes.
  sigset_t mask_before = {{0}};
  sigset_t mask = {{0}};
  signal(SIGUSR1, OnSignal);
  for (int i = 1; i < NSIG; ++i) sigaction(i, NULL, &before[i]);
  sigprocmask(SIG_SETMASK, NULL, &mask_before);
  const int variables = CountVariables();
  if (RunWorkload(3) != 0) return 1;
  for (int i = 1; i < NSIG; ++i) {
    struct sigaction now;
    if (sigaction(i, NULL, &now) == 0 && now.sa_handler != before[i].sa_handler) {
      return WorkloadFailed("another handler for signal", i);
    }
  }
  sigprocmask(SIG_SETMASK, NULL, &mask);
  if (memcmp(&mask, &mask_before, sizeof(mask)) != 0) return WorkloadFailed("signal mask", 0);
  if (CountVariables() != variables) return WorkloadFailed("environment", CountVariables());
  for (int fd = 3; fd < 256; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) return WorkloadFailed("inherited descriptor", fd);
  }
  puts("host: ok");
  return 0;
}
