// A small CUDA program for hosts of every kind: it opens libcuda.so.1 as the CUDA runtime does, by
// dlopen. C and C++; prototypes are our own, as these programs know nothing of Warpline.
#ifndef WARPLINE_TESTS_HOSTS_PROGRAMS_WORKLOAD_H_
#define WARPLINE_TESTS_HOSTS_PROGRAMS_WORKLOAD_H_

#include <dlfcn.h>
#include <stdio.h>

enum { kWorkloadNotInitialized = 3, kWorkloadElements = 1024 };

struct Workload {
  void* library;
  int (*init)(unsigned);
  int (*context_create)(void**, int);
  int (*context_set)(void*);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*function_get)(void**, void*, const char*);
  int (*allocate)(unsigned long long*, size_t);
  int (*release)(unsigned long long);
  int (*copy_out)(void*, unsigned long long, size_t);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
  int (*synchronize)(void);
};

static const char kWorkloadPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry fill(.param .u64 out, .param .u32 value) {\n"
    "  .reg .u64 %d<4>;\n  .reg .u32 %r<6>;\n"
    "  ld.param.u64 %d1, [out];\n  ld.param.u32 %r1, [value];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.u32 %r2, %r2, %r3, %r4;\n  add.u32 %r1, %r1, %r2;\n"
    "  cvta.to.global.u64 %d1, %d1;\n  mul.wide.u32 %d2, %r2, 4;\n"
    "  add.u64 %d1, %d1, %d2;\n  st.global.u32 [%d1], %r1;\n  ret;\n}\n";

// Says which step failed.
static inline int WorkloadFailed(const char* step, int result) {
  fprintf(stderr, "workload: %s: %d\n", step, result);
  return 1;
}

static inline int OpenWorkload(struct Workload* w) {
  w->library = dlopen("libcuda.so.1", RTLD_NOW);
  if (w->library == NULL) {
    fprintf(stderr, "workload: %s\n", dlerror());
    return 1;
  }
#define WORKLOAD_BIND(field, name)                                          \
  do {                                                                      \
    void* const found = dlsym(w->library, name);                            \
    if (found == NULL) return WorkloadFailed("no " name, 0);                \
    __builtin_memcpy((void*)&w->field, (const void*)&found, sizeof(found)); \
  } while (0)
  WORKLOAD_BIND(init, "cuInit");
  WORKLOAD_BIND(context_create, "cuDevicePrimaryCtxRetain");
  WORKLOAD_BIND(context_set, "cuCtxSetCurrent");
  WORKLOAD_BIND(module_load, "cuModuleLoadData");
  WORKLOAD_BIND(module_unload, "cuModuleUnload");
  WORKLOAD_BIND(function_get, "cuModuleGetFunction");
  WORKLOAD_BIND(allocate, "cuMemAlloc_v2");
  WORKLOAD_BIND(release, "cuMemFree_v2");
  WORKLOAD_BIND(copy_out, "cuMemcpyDtoH_v2");
  WORKLOAD_BIND(launch, "cuLaunchKernel");
  WORKLOAD_BIND(synchronize, "cuCtxSynchronize");
#undef WORKLOAD_BIND
  return 0;
}

static inline int RunOpenWorkload(struct Workload* w, unsigned rounds) {
  int result = w->init(0);
  if (result != 0) return WorkloadFailed("cuInit", result);
  void* context;
  void* module;
  void* function;
  unsigned long long memory;
  if ((result = w->context_create(&context, 0)) != 0) return WorkloadFailed("context", result);
  if ((result = w->context_set(context)) != 0) return WorkloadFailed("current", result);
  if ((result = w->module_load(&module, kWorkloadPtx)) != 0) return WorkloadFailed("load", result);
  if ((result = w->function_get(&function, module, "fill")) != 0) {
    return WorkloadFailed("function", result);
  }
  static __thread unsigned got[kWorkloadElements];
  if ((result = w->allocate(&memory, sizeof(got))) != 0) return WorkloadFailed("alloc", result);
  for (unsigned round = 0; round < rounds; ++round) {
    void* parameters[] = {&memory, &round};
    result =
        w->launch(function, kWorkloadElements / 128, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL);
    if (result != 0) return WorkloadFailed("launch", result);
    if ((result = w->copy_out(got, memory, sizeof(got))) != 0) {
      return WorkloadFailed("copy", result);
    }
    for (unsigned i = 0; i < kWorkloadElements; ++i) {
      if (got[i] != i + round) return WorkloadFailed("wrong value", (int)got[i]);
    }
  }
  if ((result = w->synchronize()) != 0) return WorkloadFailed("synchronize", result);
  if ((result = w->release(memory)) != 0) return WorkloadFailed("free", result);
  if ((result = w->module_unload(module)) != 0) return WorkloadFailed("unload", result);
  return 0;
}

// Runs the whole workload. Returns 0 when every result was right; otherwise stderr says what
// failed.
static inline int RunWorkload(unsigned rounds) {
  struct Workload w;
  return OpenWorkload(&w) || RunOpenWorkload(&w, rounds);
}

#endif  // WARPLINE_TESTS_HOSTS_PROGRAMS_WORKLOAD_H_
