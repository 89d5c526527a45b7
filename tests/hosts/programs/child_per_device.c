// An old-style burn-in test: a parent that does not use CUDA and a child for each device, which
// launches with the functions of CUDA's first versions, reports through a pipe and is stopped by
// SIGTERM.
#include <stdatomic.h>

#include "processes.h"

enum { kMaxDevices = 16, kReports = 5, kNotSupported = 801 };

struct Old {
  int (*device_count)(int*);
  int (*device)(int*, int);
  int (*context)(void**, unsigned, int);
  int (*set_block)(void*, int, int, int);
  int (*set_shared)(void*, unsigned);
  int (*set_size)(void*, unsigned);
  int (*set_bytes)(void*, int, void*, unsigned);
  int (*set_int)(void*, int, unsigned);
  int (*set_texture)(void*, int, void*);
  int (*launch)(void*);
  int (*launch_grid)(void*, int, int);
  int (*launch_grid_async)(void*, int, int, void*);
};

static int OpenOld(void* library, struct Old* old) {
  static const char* const kNames[] = {
      "cuDeviceGetCount",    "cuDeviceGet",    "cuCtxCreate_v2", "cuFuncSetBlockShape",
      "cuFuncSetSharedSize", "cuParamSetSize", "cuParamSetv",    "cuParamSeti",
      "cuParamSetTexRef",    "cuLaunch",       "cuLaunchGrid",   "cuLaunchGridAsync"};
  void* functions[sizeof(kNames) / sizeof(kNames[0])];
  for (unsigned i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    functions[i] = dlsym(library, kNames[i]);
    if (functions[i] == NULL) return WorkloadFailed(kNames[i], 0);
  }
  _Static_assert(sizeof(*old) == sizeof(functions), "a name for each");
  memcpy((void*)old, functions, sizeof(functions));
  return 0;
}

static atomic_int g_stop;
static void OnTerm(int number) {
  (void)number;
  atomic_store(&g_stop, 1);
}

struct Job {
  struct Workload w;
  struct Old old;
  void* fill;
  unsigned long long memory;
  unsigned got[kWorkloadElements];
};

static int Open(struct Job* job, int device) {
  void *context, *module;
  int ordinal = -1;
  const unsigned long long none = 0;
  struct Old* const old = &job->old;
  if (OpenWorkload(&job->w) != 0 || OpenOld(job->w.library, old) != 0) return 1;
  if (job->w.init(0) != 0 || old->device(&ordinal, device) != 0 ||
      old->context(&context, 0, ordinal) != 0 || job->w.module_load(&module, kWorkloadPtx) != 0 ||
      job->w.function_get(&job->fill, module, "fill") != 0 ||
      job->w.allocate(&job->memory, sizeof(job->got)) != 0) {
    return WorkloadFailed("device", device);
  }
  if (old->set_texture(job->fill, -1, (void*)&none) != kNotSupported) {
    return WorkloadFailed("texture reference", 0);
  }
  if (old->set_block(job->fill, 128, 1, 1) != 0 || old->set_shared(job->fill, 0) != 0 ||
      old->set_bytes(job->fill, 0, &job->memory, 8) != 0 || old->set_size(job->fill, 12) != 0) {
    return WorkloadFailed("what launches use", device);
  }
  return 0;
}

static int Round(struct Job* job, unsigned round) {
  struct Old* const old = &job->old;
  const int blocks = kWorkloadElements / 128;
  if (old->set_int(job->fill, 8, round) != 0) return WorkloadFailed("value", (int)round);
  const int result = round % 3 == 0   ? old->launch_grid(job->fill, blocks, 1)
                     : round % 3 == 1 ? old->launch_grid_async(job->fill, blocks, 1, NULL)
                                      : old->launch_grid_async(job->fill, blocks, 1, (void*)2);
  // Launches one block more, with another value: earlier launches keep their own.
  if (result != 0 || old->set_int(job->fill, 8, 7 * round) != 0 || old->launch(job->fill) != 0 ||
      job->w.synchronize() != 0 || job->w.copy_out(job->got, job->memory, sizeof(job->got)) != 0) {
    return WorkloadFailed("round", (int)round);
  }
  for (unsigned i = 128; i < kWorkloadElements; ++i) {
    if (job->got[i] != i + round) return WorkloadFailed("wrong value", (int)job->got[i]);
  }
  return 0;
}

// The child ends by the signal, or by itself once the signal has come.
static void RunChild(int device, int reports) {
  static struct Job job;
  if (device % 2 == 0) signal(SIGTERM, OnTerm);
  if (Open(&job, device) != 0) _exit(1);
  for (unsigned round = 0; !atomic_load(&g_stop); ++round) {
    const char byte = (char)device;
    if (Round(&job, round) != 0 || write(reports, &byte, 1) != 1) _exit(1);
  }
  exit(0);
}

// Counts in a process of its own, so that this one stays without CUDA.
static int CountDevices(void) {
  const pid_t child = fork();
  if (child == 0) {
    struct Workload w;
    struct Old old;
    int count = 0;
    if (OpenWorkload(&w) != 0 || OpenOld(w.library, &old) != 0 || w.init(0) != 0 ||
        old.device_count(&count) != 0) {
      _exit(0);
    }
    _exit(count);
  }
  const int status = AwaitChild(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int main(int argc, char** argv) {
  const int expected = argc > 1 ? atoi(argv[1]) : 1;
  const int devices = CountDevices();
  if (devices != expected || devices > kMaxDevices) return WorkloadFailed("devices", devices);
  pid_t children[kMaxDevices];
  int reports[kMaxDevices];
  for (int i = 0; i < devices; ++i) {
    int ends[2];
    if (pipe(ends) != 0) return WorkloadFailed("pipe", i);
    children[i] = fork();
    if (children[i] == 0) RunChild(i, ends[1]);
    close(ends[1]);
    reports[i] = ends[0];
  }
  for (int report = 0; report < kReports; ++report) {
    for (int i = 0; i < devices; ++i) {
      if (AwaitByte(reports[i]) != i) return WorkloadFailed("report of device", i);
    }
  }
  for (int i = 0; i < devices; ++i) kill(children[i], SIGTERM);
  for (int i = 0; i < devices; ++i) {
    // The children may be blocked in a write that is not read otherwise.
    close(reports[i]);
    const int status = AwaitChild(children[i]);
    const int ended = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (status != 0 && ended != SIGTERM && ended != SIGPIPE) {
      return WorkloadFailed("end of a child", status);
    }
  }
  puts("host: ok");
  return 0;
}
