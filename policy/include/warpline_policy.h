/* What a policy sees of Warpline: its hooks, their contexts, verdicts, maps and helper functions.
 *
 * A policy is a C file that includes this header and is compiled by stock clang:
 *
 *   clang -target bpf -mcpu=v2 -O2 -I policy/include -c mine.bpf.c -o mine.bpf.o
 *
 *   #include "warpline_policy.h"
 *   WARPLINE_POLICY();
 *   WARPLINE_MAP(runs, WARPLINE_HASH, sizeof(u64), 1, 1024);
 *
 *   SEC("on_dispatch")
 *   u64 dispatch(const struct warpline_on_dispatch* ctx) {
 *     u64 tenant = ctx->tenant;
 *     map_add(&runs, &tenant, 0, 1);
 *     return ctx->credit_ns < 0 ? WARPLINE_HOLD_US(500) : WARPLINE_RUN;
 *   }
 *
 * docs/policies.md says what is verified and what the limits are. The header is C and C++, needs no
 * other one, and its structures have a fixed layout without holes: times are nanoseconds of one
 * steady clock unless the name says otherwise, shares are thousandths of a device.
 */
#ifndef WARPLINE_POLICY_INCLUDE_WARPLINE_POLICY_H_
#define WARPLINE_POLICY_INCLUDE_WARPLINE_POLICY_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a context, a helper or the meaning of a verdict changes. What is added raises
 * nothing: programs of before go on, and one that reads a field which a server does not have is
 * refused by that. */
#define WARPLINE_POLICY_ABI 1u

/* Contexts. A hook's function gets a pointer to one, and can only read it. */

/* What every context begins with. */
#define WARPLINE_CONTEXT_HEAD                                                   \
  unsigned int version;       /* WARPLINE_POLICY_ABI of the server */           \
  unsigned int vgpu;          /* the number of the slice on its device */       \
  unsigned long long tenant;  /* a number that stays the tenant's */            \
  unsigned long long session; /* 0 where the hook is about no single session */ \
  unsigned long long now_ns

/* A session is about to be opened, before anything is taken for it. Verdicts: RUN (open it), HOLD
 * (ask about it again then), REJECT. */
struct warpline_on_submit {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long bytes;       /* device memory that it asks for with its opening */
  unsigned long long expected_ns; /* 0: nothing is known */
  unsigned int call_class;        /* WARPLINE_SESSION */
  unsigned int queue_depth;       /* sessions that the tenant has on the device already */
};

/* The slice has work for an engine that is to be given to somebody. Verdicts: RUN, SCORE, HOLD,
 * SKIP. Of those that may run the one with the highest score does; RUN is a score of 0. */
struct warpline_on_dispatch {
  WARPLINE_CONTEXT_HEAD;
  long long credit_ns; /* what the slice may still use in this period */
  unsigned long long wait_ns;
  unsigned long long expected_ns;   /* 0: nothing is known */
  unsigned int used_share;          /* measured over the last second */
  unsigned int bw_share;            /* assigned */
  unsigned int queue_depth;         /* calls of the slice that wait */
  unsigned int engine;              /* enum warpline_engine */
  int priority;                     /* more is more urgent; 0 is best effort */
  unsigned int more_urgent_waiting; /* slices of higher priority with work for this engine */
  unsigned int power_mw;            /* 0: the device does not say */
  unsigned int power_limit_mw;
  int temperature_c;
  unsigned int day_second; /* seconds since midnight, UTC */
  unsigned int device;     /* the number of the device */
  /* of a launch for which the slice waits, as its worker says: expected_ns above, which is what the
   * kernel took lately, and these; 0 for other work, and where nothing waits */
  unsigned int registers;    /* of a thread */
  unsigned long long kernel; /* the FNV-1a hash of the kernel's name */
  unsigned long long grid_blocks;
  unsigned int block_threads;
  unsigned int shared_bytes; /* of a block */
};

/* At level 0, of which only a policy hears that says WARPLINE_EXPECT_ARRIVALS(), a slice that comes
 * at regular intervals is likely to come in a moment. Verdicts: YIELD (the one that runs has only a
 * little in flight until then), KEEP. At level 1, it is a slice's turn while others wait. Verdicts:
 * YIELD, KEEP, KILL. At level 2, work
 * of its is in flight that no turn takes back: its kernels run beside those of a more urgent slice,
 * in the same hardware context (the guarded tier; verdicts: THROTTLE, HOLD, KEEP, KILL), or they
 * have not become complete since its turn was over, while a more urgent slice wants the engine
 * (KEEP, KILL; asked about slices that are best effort only). */
struct warpline_on_preempt {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long elapsed_ns; /* of the turn, or since it has had kernels in flight */
  /* of whoever has waited longest; at level 2, how long ago the most urgent slice had work */
  unsigned long long waiting_ns;
  int priority;
  int waiting_priority; /* the highest of those that wait, or are more urgent */
  unsigned int level;   /* 0: before the other comes, 1: between calls, 2: within a kernel */
  unsigned int engine;
  /* for how long its work has been in flight, a more urgent slice has wanted to go on, and nothing
   * of either has become complete; 0 where that is not so */
  unsigned long long in_way_ns;
  unsigned int killable; /* 1: the slice is best effort and in the way, so that KILL is heeded */
  unsigned int device;   /* the number of the device */
  /* at level 2 within a kernel, of the more urgent slice: how long its kernels have been in flight,
   * and how many commands of its have become complete, since it came; its number on the device */
  unsigned long long waiting_busy_ns;
  unsigned long long waiting_commands;
  unsigned int waiting_vgpu;
  unsigned int reserved;
};

/* Work is complete. The verdict is ignored: this hook notes what was used. */
struct warpline_on_retire {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long actual_ns;
  unsigned long long bytes;
  unsigned int engine;
  unsigned int status; /* 0, or CUDA's error */
  unsigned int device; /* the number of the device */
  unsigned int reserved;
};

/* A session's request for memory does not fit. Verdicts: FAIL (refuse it at once), RECLAIM (first
 * have sessions of the same payer give up what they keep of what they returned), HOLD (wait for
 * somebody to free some, and try again then). */
struct warpline_on_mem_fault {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long wanted_bytes;
  unsigned long long used_bytes;
  unsigned long long quota_bytes;
  unsigned long long pool_free_bytes;
};

/* Others want memory of a session. Either it keeps what it returned, and is held up while its
 * worker is replaced. Or (moves is 1) what it has is moved to the host, and back for its next
 * command. Verdicts: SCORE (what scores most goes first), KEEP (it is left alone). */
struct warpline_on_reclaim {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long bytes;  /* that it keeps, or that would be moved */
  unsigned long long age_ns; /* of the session */
  unsigned int references;   /* 0: what is kept has no other holder */
  int priority;
  unsigned long long wanted_by; /* moves: the session that wants room; 0 for none */
  unsigned int moves;
  unsigned int reserved;
};

/* A copy is to be queued. Verdicts: RUN, HOLD. */
struct warpline_on_copy_enqueue {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long bytes;
  unsigned long long io_used_bytes;
  unsigned long long io_budget_bytes;
  unsigned int direction; /* enum warpline_direction */
  int priority;
  unsigned int device; /* the number of the device */
  unsigned int reserved;
};

/* The device's power and heat have been read, four times a second while it is given in turns.
 * Verdicts: RUN, or HOLD for everybody's work meanwhile, until the next reading at most. */
struct warpline_on_power {
  WARPLINE_CONTEXT_HEAD;
  unsigned int power_mw;
  unsigned int power_limit_mw;
  int temperature_c;
  unsigned int reserved;
};

/* The device's temperature has been read, when its power has; not asked about a device that does
 * not say it. Verdicts: RUN, HOLD as in on_power, or THROTTLE for everybody's work until the next
 * reading. Nobody then begins anything for so many microseconds of each millisecond, 900 at most.
 * Threads of hardened kernels nap for as long each time that they ask. */
struct warpline_on_thermal {
  WARPLINE_CONTEXT_HEAD;
  int temperature_c;
  int change_c;        /* since the reading before */
  unsigned int device; /* the number of the device */
  unsigned int reserved;
};

enum warpline_engine { WARPLINE_COMPUTE = 0, WARPLINE_COPY = 1 };
enum warpline_direction {
  WARPLINE_TO_DEVICE = 0,
  WARPLINE_FROM_DEVICE = 1,
  WARPLINE_ON_DEVICE = 2
};
enum warpline_call_class {
  WARPLINE_LAUNCH = 0,
  WARPLINE_TRANSFER = 1,
  WARPLINE_OTHER = 2,
  WARPLINE_SESSION = 3
};

/* Verdicts. The low 32 bits say what to do, the high ones for how long. What a hook does not know
 * means WARPLINE_DEFAULT: the built-in policy decides. */
#define WARPLINE_DEFAULT 0ull
#define WARPLINE_RUN 1ull
#define WARPLINE_HOLD 2ull /* until something changes */
#define WARPLINE_SKIP 3ull
#define WARPLINE_REJECT 4ull
#define WARPLINE_YIELD 5ull
#define WARPLINE_KEEP 6ull
#define WARPLINE_FAIL 7ull
#define WARPLINE_RECLAIM 8ull
#define WARPLINE_SCORE 9ull
#define WARPLINE_THROTTLE 10ull
/* The slice's sessions that have work in flight end at once, with an error. Where the context does
 * not say `killable` it is the default. */
#define WARPLINE_KILL 11ull
#define WARPLINE_WITH(verdict, argument) ((verdict) | (unsigned long long)(argument) << 32)
#define WARPLINE_HOLD_US(us) WARPLINE_WITH(WARPLINE_HOLD, us)
/* Threads of hardened kernels nap for so long, 1,000 at most, each time that they ask. */
#define WARPLINE_THROTTLE_US(us) WARPLINE_WITH(WARPLINE_THROTTLE, us)
#define WARPLINE_SCORED(score) WARPLINE_WITH(WARPLINE_SCORE, score) /* most is best */

/* Maps: state that stays between calls, and that the operator sees. A value is an array of cells
 * of 8 bytes. */
enum warpline_map_kind {
  WARPLINE_ARRAY =
      1,            /* the key is a u32 below the capacity; every entry is there, and begins as 0 */
  WARPLINE_HASH = 2 /* the key is any bytes; map_add() makes an entry */
};

struct warpline_map {
  unsigned int kind;
  unsigned int key_bytes;
  unsigned int value_cells;
  unsigned int flags; /* 0 */
  unsigned long long capacity;
};

/* Numbers of the helper functions. */
enum warpline_helper {
  WARPLINE_MAP_LOOKUP = 1,
  WARPLINE_MAP_ADD = 2,
  WARPLINE_NOW_NS = 3,
  WARPLINE_AUDIT = 4
};

#ifdef __cplusplus
} /* extern "C" */
#endif

#ifdef __bpf__

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

/* The section of a hook's function is the hook's name. A section holds one function; what it calls
 * is inlined, so mark it `static inline` or WARPLINE_INLINE. */
#define SEC(name) __attribute__((section(name), used))
#define WARPLINE_INLINE static inline __attribute__((always_inline))

/* Once in each policy: says which version of this header it was compiled with. */
#define WARPLINE_POLICY() const u32 warpline_policy_abi SEC("version") = WARPLINE_POLICY_ABI

/* At most once, at file scope: the policy is asked as well while one lease alone has the device,
 * and may have everybody wait for so many milliseconds, from 1 to 10,000, before it is taken for
 * one that fails. Others are asked only while several want the same engine, and may do so for 80
 * ms. */
#define WARPLINE_ASK_ALWAYS(longest_wait_ms) \
  const u32 warpline_ask_always SEC("always") = (longest_wait_ms)

/* At most once, at file scope: the policy is asked before somebody comes who does so at regular
 * intervals, every 4 to 100 ms (on_preempt, level 0). Whom it has yield is limited for half of the
 * time at most. */
#define WARPLINE_EXPECT_ARRIVALS() const u32 warpline_expect_arrivals SEC("expects") = 1

/* A map of the policy, at file scope. */
#define WARPLINE_MAP(name, kind, key_bytes, value_cells, capacity) \
  const struct warpline_map name SEC("maps") = {kind, key_bytes, value_cells, 0, capacity}

/* The cells of the key's entry, or null where there is none. They may change at any time. */
static volatile u64* (*const map_lookup)(const struct warpline_map* map,
                                         const void* key) = (void*)WARPLINE_MAP_LOOKUP;

/* Adds to a cell of the key's entry, in one step. A hash map gets the entry if it has none. Returns
 * the cell's new value; 0 if there is no such cell or the map is full. */
static u64 (*const map_add)(const struct warpline_map* map, const void* key, u64 cell,
                            u64 delta) = (void*)WARPLINE_MAP_ADD;

/* The steady clock. A context's now_ns is the same a moment ago, and costs nothing. */
static u64 (*const now_ns)(void) = (void*)WARPLINE_NOW_NS;

/* Puts a line with this code into the audit's record; the server bounds how many. Returns 0. */
static u64 (*const audit)(u64 code) = (void*)WARPLINE_AUDIT;

#endif /* __bpf__ */

#endif /* WARPLINE_POLICY_INCLUDE_WARPLINE_POLICY_H_ */
