// Forks while threads launch. Every call of the children reports that CUDA is not initialized. They
// end in any way, some after their parent, and the parent's results stay right. In between,
// programs are started by system(), popen() and posix_spawn().
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>

#include "processes.h"

extern char** environ;

enum { kThreads = 3, kForks = 60 };

static atomic_int g_stop;

static void* Launch(void* argument) {
  struct Workload* const w = argument;
  while (!atomic_load(&g_stop)) {
    if (RunOpenWorkload(w, 5) != 0) return (void*)1;
  }
  return NULL;
}

// Returns 0 if every call is turned away.
static int TurnedAway(struct Workload* w) {
  void* object = NULL;
  unsigned long long memory = 0;
  unsigned number = 0;
  void* parameters[] = {&memory, &number};
  const int results[] = {
      w->init(0),
      w->context_create(&object, 0),
      w->context_set(NULL),
      w->module_load(&object, kWorkloadPtx),
      w->allocate(&memory, 1024),
      w->launch((void*)16, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL),
      w->copy_out(&number, 4096, 4),
      w->release(4096),
      w->synchronize(),
  };
  for (unsigned i = 0; i < sizeof(results) / sizeof(results[0]); ++i) {
    if (results[i] != kWorkloadNotInitialized) return WorkloadFailed("call in a child", (int)i);
  }
  return 0;
}

static void* EndsAsThread(void* argument) { return (void*)(long)TurnedAway(argument); }

static void RunChild(struct Workload* w, int i) {
  alarm(kProcessPatienceMs / 1000);
  int failed = TurnedAway(w);
  pthread_t thread;
  if (i % 5 == 0 && pthread_create(&thread, NULL, EndsAsThread, w) == 0) {
    void* result = NULL;
    pthread_join(thread, &result);
    failed |= result != NULL;
  }
  // A child of its own has no more than it has.
  if (i % 7 == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(TurnedAway(w));
    failed |= AwaitChild(grandchild);
  }
  if (i % 2 == 0) exit(failed);
  _exit(failed);
}

static int StartPrograms(void) {
  if (system("exit 7") != 7 << 8) return WorkloadFailed("system", 0);
  char line[16] = "";
  FILE* const reader = popen("echo started", "r");
  if (reader == NULL || fgets(line, sizeof(line), reader) == NULL || pclose(reader) != 0 ||
      strcmp(line, "started\n") != 0) {
    return WorkloadFailed("popen", 0);
  }
  pid_t spawned = 0;
  char* const words[] = {(char*)"true", NULL};
  if (posix_spawnp(&spawned, "true", NULL, NULL, words, environ) != 0 || AwaitChild(spawned) != 0) {
    return WorkloadFailed("posix_spawn", 0);
  }
  return 0;
}

// Starts a child that works as long as `await` is open elsewhere; its findings go to `out`.
static pid_t StartLasting(struct Workload* w, const int await[2], const int out[2]) {
  const pid_t child = fork();
  if (child != 0) return child;
  close(await[1]);
  alarm(kProcessPatienceMs / 1000);
  char byte = TurnedAway(w) == 0 ? 'd' : 'f';
  while (read(await[0], &byte, 1) > 0) {
  }
  if (TurnedAway(w) != 0) byte = 'f';
  if (write(out[1], &byte, 1) != 1) _exit(1);
  exit(0);
}

static int ForkAndLaunch(struct Workload* w) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, Launch, w) != 0) return WorkloadFailed("thread", i);
  }
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) RunChild(w, i);
    const int status = AwaitChild(child);
    if (status != 0) return WorkloadFailed("child of a program that launches", status);
    if (i % 20 == 0 && StartPrograms() != 0) return 1;
    if (i % 10 == 0 && RunOpenWorkload(w, 1) != 0) return 1;
  }
  atomic_store(&g_stop, 1);
  for (int i = 0; i < kThreads; ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    if (failed != NULL) return WorkloadFailed("results beside forks", i);
  }
  return 0;
}

// Runs the program proper, below a process that sees its child outlive it.
static void Run(const int await[2], const int out[2]) {
  struct Workload w;
  if (OpenWorkload(&w) != 0 || RunOpenWorkload(&w, 2) != 0) _exit(1);
  StartLasting(&w, await, out);
  close(await[0]);
  const int failed = ForkAndLaunch(&w) || RunOpenWorkload(&w, 5);
  exit(failed);
}

int main(void) {
  int await[2], out[2];
  if (pipe(await) != 0 || pipe(out) != 0) return WorkloadFailed("pipe", 0);
  const pid_t program = fork();
  if (program == 0) Run(await, out);
  close(await[0]);
  const int status = AwaitChild(program);
  if (status != 0) return WorkloadFailed("parent", status);
  // Only now does the child go on.
  close(await[1]);
  if (AwaitByte(out[0]) != 'd') return WorkloadFailed("child that outlives its parent", 0);
  puts("host: ok");
  return 0;
}
