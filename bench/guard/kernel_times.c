/* Measures the GPU time of each kernel launch of an unmodified CUDA program.
 *
 *   gcc -shared -fPIC -O2 kernel_times.c -I/usr/local/cuda/include -o kernel_times.so -ldl
 * -lpthread KERNEL_TIMES_OUT=times.csv LD_PRELOAD=./kernel_times.so PROGRAM ...
 *
 * The library stands between the program and libcuda.so.1, whether the program is linked to that or
 * finds it by dlsym() and cuGetProcAddress(), as libcudart does. It records an event before and one
 * after each launch, and at the program's end writes a line for each kernel, grid and block:
 *
 *   kernel,grid,block,launches,min_us,median_us,sum_us
 *
 * A time is what lies between the two events. On an idle stream that includes the microseconds
 * until the launch follows the first event, and where streams run side by side, the work of the
 * others. Of a line at most MOST_SAMPLES launches are timed, spread evenly over the run; sum_us is
 * their mean times the launches. Launches that a graph captures are neither timed nor counted, and
 * those made while MOST_OPEN timed ones are under way are counted only.
 *
 * Thread-safe. It waits for the GPU at the program's end and before a context ends, never
 * otherwise, and a failure in here leaves the launch untimed. A kernel is known by its handle: if
 * the driver gives out the handle of an unloaded one again, the new one goes by the old one's name.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Names that drivers older than this cuda.h have, too. */
#undef cuGetProcAddress
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float* ms, CUevent before, CUevent after);

enum { MOST_SAMPLES = 4096, MOST_OPEN = 4096, COLLECT_EVERY = 64, BUCKETS = 4096, LAST_WAIT_S = 5 };

struct timing { /* Two events around a launch. */
  struct timing* next;
  struct record* record;
  CUstream stream;
  CUevent before, after;
};

struct record { /* A line of the output. */
  struct record* next;
  CUcontext context;
  CUfunction function;
  unsigned size[6]; /* Grid and block. */
  char* name;
  unsigned long launches, stride; /* Each stride-th launch is timed. */
  struct timing* unused;
  int samples;
  float us[MOST_SAMPLES];
};

/* Each pass of clang-format breaks these lines elsewhere. */
/* clang-format off */
#define DRIVER_CALLS(F)                                                                            \
  F(cuCtxGetCurrent) F(cuCtxPushCurrent_v2) F(cuCtxPopCurrent_v2) F(cuEventCreate)                 \
  F(cuEventRecord) F(cuEventElapsedTime) F(cuFuncGetName) F(cuKernelGetName)                       \
  F(cuStreamIsCapturing) F(cuThreadExchangeStreamCaptureMode)
/* clang-format on */
#define DECLARE(name) static __typeof__(&name) real_##name;
DRIVER_CALLS(DECLARE)

static __thread int depth; /* Of launches that the driver makes by way of exported ones. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* Guards what follows and in records. */
static enum { UNKNOWN, READY, UNUSABLE } state;
static pid_t process;
static struct record* records[BUCKETS];
static struct timing* open_timings;
static int open_count, until_collect = COLLECT_EVERY;

/* ---- The program's way to the driver ---- */

static void* wrapper(const char* name); /* Ours, or NULL. */

static void* real_dlsym(void* handle, const char* name) {
  static void* (*next)(void*, const char*);
  if (next == NULL) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return next(handle, name); /* A sibling call: whose RTLD_NEXT it is depends on the caller. */
}

void* dlsym(void* handle, const char* name) {
  void* ours = strncmp(name, "cu", 2) == 0 ? wrapper(name) : NULL;
  if (ours == NULL) return real_dlsym(handle, name);
  void* found = real_dlsym(handle, name);
  return found != NULL ? ours : NULL;
}

static void* real(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return real_dlsym(driver != NULL ? driver : RTLD_NEXT, name);
}

/* Puts our function in the place of the one that the driver found. */
static CUresult replace(CUresult result, const char* symbol, void** function, int version,
                        cuuint64_t flags) {
  if (result != CUDA_SUCCESS || symbol == NULL || function == NULL || *function == NULL) {
    return result;
  }
  if (strcmp(symbol, "cuGetProcAddress") == 0) {
    *function = wrapper(version >= 12000 ? "cuGetProcAddress_v2" : symbol);
    return result;
  }
  const bool ptsz = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const char* suffixes[] = {ptsz ? "_ptsz" : "", "", "_v2"};
  void* ours = NULL;
  for (int i = 0; i < 3 && ours == NULL; ++i) {
    char name[256];
    snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
    ours = wrapper(name);
  }
  if (ours != NULL) *function = ours;
  return result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  __typeof__(&cuGetProcAddress_v2) next = real("cuGetProcAddress_v2");
  if (next == NULL) return CUDA_ERROR_NOT_INITIALIZED;
  return replace(next(symbol, function, version, flags, status), symbol, function, version, flags);
}

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** function, int version,
                                  cuuint64_t flags) {
  __typeof__(&cuGetProcAddress) next = real("cuGetProcAddress");
  if (next == NULL) return CUDA_ERROR_NOT_INITIALIZED;
  return replace(next(symbol, function, version, flags), symbol, function, version, flags);
}

/* ---- Records, under the mutex ---- */

static struct record* record_of(CUfunction function, CUcontext context, const unsigned* size) {
  size_t hash = (size_t)function / 16 + (size_t)context / 16;
  for (int i = 0; i < 6; ++i) hash = hash * 31 + size[i];
  struct record** bucket = &records[hash % BUCKETS];
  struct record* found = *bucket;
  while (found != NULL && (found->function != function || found->context != context ||
                           memcmp(found->size, size, sizeof found->size) != 0)) {
    found = found->next;
  }
  const char* name = NULL;
  if (found != NULL || (found = calloc(1, sizeof *found)) == NULL) return found;
  if (real_cuFuncGetName(&name, function)) real_cuKernelGetName(&name, (CUkernel)function);
  found->next = *bucket;
  found->context = context;
  found->function = function;
  found->stride = 1;
  found->name = strdup(name != NULL ? name : "");
  memcpy(found->size, size, sizeof found->size);
  return *bucket = found;
}

static void add_sample(struct record* record, float us) {
  if (record->samples == MOST_SAMPLES) {
    record->samples /= 2;
    record->stride *= 2;
    for (int i = 0; i < record->samples; ++i) record->us[i] = record->us[2 * i];
  }
  record->us[record->samples++] = us;
}

/* Takes the times of launches that have ended; with `last`, waits for the others for a while and
 * then forgets them. */
static void collect(bool last) {
  const time_t until = time(NULL) + LAST_WAIT_S;
  for (struct timing **at = &open_timings, *each = *at; each != NULL; each = *at) {
    CUcontext popped;
    float ms = 0;
    CUresult result = real_cuCtxPushCurrent_v2(each->record->context);
    if (result == CUDA_SUCCESS) {
      result = real_cuEventElapsedTime(&ms, each->before, each->after);
      while (last && result == CUDA_ERROR_NOT_READY && time(NULL) < until) {
        usleep(100);
        result = real_cuEventElapsedTime(&ms, each->before, each->after);
      }
      real_cuCtxPopCurrent_v2(&popped);
    }
    if (result == CUDA_ERROR_NOT_READY && !last) {
      at = &each->next;
      continue;
    }
    if (result == CUDA_SUCCESS) add_sample(each->record, ms * 1000);
    *at = each->next;
    --open_count;
    each->next = each->record->unused;
    each->record->unused = each;
  }
}

static int by_value(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

static void write_record(FILE* file, struct record* record) {
  const unsigned* s = record->size;
  const int n = record->samples;
  double sum = 0;
  if (n == 0 || record->name == NULL || record->name[0] == '\0') return;
  for (int i = 0; i < n; ++i) sum += record->us[i];
  qsort(record->us, n, sizeof *record->us, by_value);
  fprintf(file, "%s,%ux%ux%u,%ux%ux%u,%lu,%.3f,%.3f,%.3f\n", record->name, s[0], s[1], s[2], s[3],
          s[4], s[5], record->launches, record->us[0],
          (record->us[(n - 1) / 2] + record->us[n / 2]) / 2, sum / n * record->launches);
}

static void write_all(void) {
  const char* path = getenv("KERNEL_TIMES_OUT");
  char temporary[4096];
  if (path == NULL || getpid() != process) return;
  pthread_mutex_lock(&mutex);
  collect(/*last=*/true);
  snprintf(temporary, sizeof temporary, "%s.%d", path, (int)process);
  FILE* file = fopen(temporary, "w");
  if (file != NULL) {
    fputs("kernel,grid,block,launches,min_us,median_us,sum_us\n", file);
    for (int i = 0; i < BUCKETS; ++i) {
      for (struct record* each = records[i]; each != NULL; each = each->next) {
        write_record(file, each);
      }
    }
    if (fclose(file) == 0) rename(temporary, path);
  }
  pthread_mutex_unlock(&mutex);
}

/* ---- Launches ---- */

/* Whether launches can be timed. What the first of them registers for the program's end comes
 * before what libcudart registered earlier. */
static bool ready(void) {
  if (state == UNKNOWN) {
    state = READY;
#define LOAD(name) \
  if ((real_##name = real(#name)) == NULL) state = UNUSABLE;
    DRIVER_CALLS(LOAD)
    process = getpid();
    if (state == READY) atexit(write_all);
  }
  return state == READY && getpid() == process;
}

/* Two events for this launch, of which the first is recorded; NULL if it is not to be timed. */
static struct timing* take(CUfunction function, const unsigned* size, CUstream stream) {
  CUstreamCaptureStatus capturing;
  CUcontext context = NULL;
  if (real_cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL ||
      real_cuStreamIsCapturing(stream, &capturing) != CUDA_SUCCESS ||
      capturing != CU_STREAM_CAPTURE_STATUS_NONE) {
    return NULL;
  }
  struct record* record = record_of(function, context, size);
  if (record == NULL || record->launches++ % record->stride != 0) return NULL;
  if (--until_collect <= 0) {
    until_collect = COLLECT_EVERY;
    collect(/*last=*/false);
  }
  if (open_count >= MOST_OPEN) return NULL;
  struct timing* taken = record->unused;
  if (taken != NULL) {
    record->unused = taken->next;
  } else if ((taken = calloc(1, sizeof *taken)) == NULL ||
             real_cuEventCreate(&taken->before, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
             real_cuEventCreate(&taken->after, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    return NULL;
  }
  taken->record = record;
  taken->stream = stream;
  return real_cuEventRecord(taken->before, stream) == CUDA_SUCCESS ? taken : NULL;
}

static struct timing* begin(CUfunction function, const unsigned* size, CUstream stream) {
  struct timing* taken = NULL;
  if (depth++ > 0) return NULL;
  pthread_mutex_lock(&mutex);
  if (ready()) { /* What is unsafe while some stream is captured would otherwise end the capture. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    real_cuThreadExchangeStreamCaptureMode(&mode);
    taken = take(function, size, stream);
    real_cuThreadExchangeStreamCaptureMode(&mode);
  }
  pthread_mutex_unlock(&mutex);
  return taken;
}

static CUresult end(struct timing* taken, CUresult result) {
  --depth;
  if (taken == NULL || result != CUDA_SUCCESS ||
      real_cuEventRecord(taken->after, taken->stream) != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&mutex);
  taken->next = open_timings;
  open_timings = taken;
  ++open_count;
  pthread_mutex_unlock(&mutex);
  return result;
}

#define TIMED(name, function, size, stream, ...)                                       \
  static __typeof__(&name) next;                                                       \
  if (next == NULL && (next = real(#name)) == NULL) return CUDA_ERROR_NOT_INITIALIZED; \
  struct timing* taken = begin(function, size, stream);                                \
  return end(taken, next(__VA_ARGS__));
#define SIZES unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz
/* `own` is what the stream NULL means. */
#define DEFINE_LAUNCHES(suffix, own)                                                               \
  CUresult CUDAAPI cuLaunchKernel##suffix(CUfunction f, SIZES, unsigned shared, CUstream s,        \
                                          void** parameters, void** extra) {                       \
    const unsigned size[] = {gx, gy, gz, bx, by, bz};                                              \
    TIMED(cuLaunchKernel##suffix, f, size, s != NULL ? s : own, f, gx, gy, gz, bx, by, bz, shared, \
          s, parameters, extra)                                                                    \
  }                                                                                                \
  CUresult CUDAAPI cuLaunchCooperativeKernel##suffix(CUfunction f, SIZES, unsigned shared,         \
                                                     CUstream s, void** parameters) {              \
    const unsigned size[] = {gx, gy, gz, bx, by, bz};                                              \
    TIMED(cuLaunchCooperativeKernel##suffix, f, size, s != NULL ? s : own, f, gx, gy, gz, bx, by,  \
          bz, shared, s, parameters)                                                               \
  }                                                                                                \
  CUresult CUDAAPI cuLaunchKernelEx##suffix(const CUlaunchConfig* config, CUfunction f,            \
                                            void** parameters, void** extra) {                     \
    const CUlaunchConfig c = config != NULL ? *config : (CUlaunchConfig){0};                       \
    const unsigned size[] = {c.gridDimX,  c.gridDimY,  c.gridDimZ,                                 \
                             c.blockDimX, c.blockDimY, c.blockDimZ};                               \
    TIMED(cuLaunchKernelEx##suffix, f, size, c.hStream != NULL ? c.hStream : own, config, f,       \
          parameters, extra)                                                                       \
  }
DEFINE_LAUNCHES(, NULL)
DEFINE_LAUNCHES(_ptsz, CU_STREAM_PER_THREAD)

/* ---- Ends of contexts, which take the events with them ---- */

#define DEFINE_END(name, type)                                         \
  CUresult CUDAAPI name(type which) {                                  \
    __typeof__(&name) next = real(#name);                              \
    pthread_mutex_lock(&mutex);                                        \
    if (state == READY && getpid() == process) collect(/*last=*/true); \
    pthread_mutex_unlock(&mutex);                                      \
    return next != NULL ? next(which) : CUDA_ERROR_NOT_INITIALIZED;    \
  }
DEFINE_END(cuCtxDestroy_v2, CUcontext)
DEFINE_END(cuDevicePrimaryCtxRelease_v2, CUdevice)
DEFINE_END(cuDevicePrimaryCtxReset_v2, CUdevice)

static void* wrapper(const char* name) {
#define WRAPPER(function) \
  if (strcmp(name, #function) == 0) return (void*)(function)
  WRAPPER(cuLaunchKernel);
  WRAPPER(cuLaunchKernel_ptsz);
  WRAPPER(cuLaunchKernelEx);
  WRAPPER(cuLaunchKernelEx_ptsz);
  WRAPPER(cuLaunchCooperativeKernel);
  WRAPPER(cuLaunchCooperativeKernel_ptsz);
  WRAPPER(cuCtxDestroy_v2);
  WRAPPER(cuDevicePrimaryCtxRelease_v2);
  WRAPPER(cuDevicePrimaryCtxReset_v2);
  WRAPPER(cuGetProcAddress);
  WRAPPER(cuGetProcAddress_v2);
  return NULL;
}
