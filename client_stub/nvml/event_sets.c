#define _GNU_SOURCE
#include "client_stub/nvml/event_sets.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kMaxSets = 4096 };

/* A set's handle is the address of its element, which holds its kind, or 0. */
static _Atomic unsigned char g_sets[kMaxSets];
/* Where the search for a free element begins. Elements are taken in turn, so that the handle of a
 * freed set is used again as late as possible. */
static _Atomic uint32_t g_next;
/* How many sets were freed. Threads that wait for any set sleep on it. */
static _Atomic uint32_t g_freed;

void* WarplineEventSetCreate(enum WarplineEventSetKind kind) {
  for (uint32_t tried = 0; tried < kMaxSets; ++tried) {
    _Atomic unsigned char* const set = &g_sets[atomic_fetch_add(&g_next, 1) % kMaxSets];
    unsigned char none = 0;
    if (atomic_compare_exchange_strong(set, &none, (unsigned char)kind)) return (void*)set;
  }
  return NULL;
}

/* Returns the element whose address `set` is; NULL when there is none. */
static _Atomic unsigned char* Element(const void* set) {
  const uintptr_t offset = (uintptr_t)set - (uintptr_t)g_sets;
  return offset < sizeof(g_sets) ? &g_sets[offset] : NULL;
}

int WarplineEventSetIsOne(const void* set, enum WarplineEventSetKind kind) {
  _Atomic unsigned char* const element = Element(set);
  return element != NULL && atomic_load(element) == kind;
}

int WarplineEventSetFree(void* set, enum WarplineEventSetKind kind) {
  _Atomic unsigned char* const element = Element(set);
  unsigned char was = (unsigned char)kind;
  if (element == NULL || !atomic_compare_exchange_strong(element, &was, 0)) return 0;
  atomic_fetch_add(&g_freed, 1);
  syscall(SYS_futex, &g_freed, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
  return 1;
}

void WarplineEventSetWait(const void* set, enum WarplineEventSetKind kind, uint32_t timeout_ms) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += timeout_ms / 1000;
  end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
  if (end.tv_nsec >= 1000000000) {
    end.tv_nsec -= 1000000000;
    ++end.tv_sec;
  }
  const int saved = errno;
  while (1) {
    const uint32_t freed = atomic_load(&g_freed);
    if (!WarplineEventSetIsOne(set, kind)) break;
    /* Waits until an absolute time. Any result except a wake-up, or a free in between, ends the
     * wait. */
    if (syscall(SYS_futex, &g_freed, FUTEX_WAIT_BITSET_PRIVATE, freed, &end, NULL,
                FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno != EAGAIN) {
      break;
    }
  }
  errno = saved;
}
