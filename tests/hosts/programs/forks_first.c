// Forks before CUDA is used: parent and children then use it at once, and children go on after
// their parent has ended in any of the ways in which processes end.
#include "processes.h"

enum { kChildren = 4 };

static int AllAtOnce(void) {
  pid_t children[kChildren];
  for (int i = 0; i < kChildren; ++i) {
    children[i] = fork();
    if (children[i] == 0) exit(RunWorkload(20));
  }
  int failed = RunWorkload(20);
  for (int i = 0; i < kChildren; ++i) failed |= AwaitChild(children[i]);
  return failed == 0 ? 0 : WorkloadFailed("parent and children at once", failed);
}

// The parent's action after its fork.
enum Parent { kIdle, kExits, kLeaves, kIsKilled, kEndings };

// Uses CUDA or not, and ends once its child works.
static void RunParent(enum Parent parent, struct Workload* w, int await) {
  if (parent != kIdle && RunOpenWorkload(w, 3) != 0) _exit(1);
  if (AwaitByte(await) != 'b') _exit(1);
  if (parent == kExits) exit(0);
  if (parent == kIsKilled) kill(getpid(), SIGKILL);
  _exit(0);
}

// Works before its parent's end, during it and afterwards; `done` gets its verdict.
static void RunOrphan(struct Workload* w, pid_t parent, int begun, int done) {
  if (RunOpenWorkload(w, 3) != 0 || write(begun, "b", 1) != 1) _exit(1);
  for (int round = 0; getppid() == parent; ++round) {
    if (round > 1000 || RunOpenWorkload(w, 1) != 0) _exit(1);
  }
  if (RunOpenWorkload(w, 20) != 0 || write(done, "d", 1) != 1) _exit(1);
  exit(0);
}

static int Orphan(enum Parent ending) {
  int begun[2], done[2];
  if (pipe(begun) != 0 || pipe(done) != 0) return WorkloadFailed("pipe", 0);
  const pid_t parent = fork();
  if (parent == 0) {
    struct Workload w;
    if (OpenWorkload(&w) != 0) _exit(1);
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) RunOrphan(&w, self, begun[1], done[1]);
    RunParent(ending, &w, begun[0]);
  }
  close(begun[1]);
  close(done[1]);
  const int status = AwaitChild(parent);
  const int expected = ending == kIsKilled ? SIGKILL : 0;
  const int verdict = AwaitByte(done[0]);
  close(begun[0]);
  close(done[0]);
  if (status != expected) return WorkloadFailed("parent's end", status);
  return verdict == 'd' ? 0 : WorkloadFailed("child after its parent's end", (int)ending);
}

int main(void) {
  for (int ending = 0; ending < kEndings; ++ending) {
    if (Orphan((enum Parent)ending) != 0) return 1;
  }
  if (AllAtOnce() != 0) return 1;
  puts("host: ok");
  return 0;
}
