// Forks before CUDA is used, while it is, with an ordinary end of the child, and to start itself.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

static int ChildFailed(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "again") == 0) return RunWorkload(2);
  pid_t child = fork();
  if (child == 0) return RunWorkload(2);
  if (ChildFailed(child)) return WorkloadFailed("child before CUDA", 0);

  struct Workload w;
  if (OpenWorkload(&w) != 0 || RunOpenWorkload(&w, 2) != 0) return 1;
  for (int i = 0; i < 20; ++i) {
    child = fork();
    if (child == 0) {
      // As with CUDA itself, every call of the child fails; and the child ends in order.
      if (w.init(0) != kWorkloadNotInitialized) return 1;
      if (w.synchronize() != kWorkloadNotInitialized) return 1;
      exit(0);
    }
    if (ChildFailed(child)) return WorkloadFailed("child of CUDA", i);
    if (RunOpenWorkload(&w, 1) != 0) return 1;
  }
  child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "again", (char*)NULL);
    _exit(127);
  }
  if (ChildFailed(child)) return WorkloadFailed("child that was started anew", 0);
  puts("host: ok");
  return 0;
}
