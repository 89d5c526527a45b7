/* Orion: kernels of best-effort tenants go slowly beside an urgent tenant's where that helps it,
 * and as fast as they can where it does not.
 *
 * After Orion (Strati et al., EuroSys 2024), which keeps kernels apart that want the same of a
 * device, by profiles that were made before. Here it is measured, for each slice that the urgent
 * one has beside it: the slice naps in one phase, goes at full pace in the next, and so on, and
 * what a command of the urgent one takes in both is compared. A verdict holds for a second, and for
 * twice as long each time that it is found again, so that what is measured costs neither of them
 * much. */
#include "warpline_policy.h"

WARPLINE_POLICY();

#define MS 1000000ull
#define NAP_US 200
#define QUIET_NS (20 * MS) /* for how long after the urgent tenant's last work */
/* A phase, and how much of its beginning does not count: work of the phase before is in flight. */
#define PHASE_NS (20 * MS)
#define SETTLE_NS (5 * MS)
/* Phases of a measurement, of which every other one is of naps; more where the urgent tenant has
 * few commands, and none of it counts if these are too few for long. */
#define PHASES 8
#define MOST_PHASES 64
#define LEAST_COMMANDS 16
#define FIRST_HOLD_NS (1000 * MS)
#define LAST_HOLD_NS (16000 * MS)
/* In thousandths: by how much commands take longer beside the slice where it begins to nap, and
 * where it goes on with that. */
#define BEGINS 1100
#define GOES_ON 1050

enum {
  URGENT,     /* Whom the rest is about. */
  SEEN_NS,    /* The last time that it was at work. */
  NAPS,       /* The verdict: whether the slice naps. */
  HOLDS_NS,   /* For so long from its beginning. */
  UNTIL_NS,   /* The end of that; the next measurement follows. */
  PHASE,      /* The number of the phase; 0 while nothing is measured. */
  BEGAN_NS,   /* Its beginning. */
  SETTLED,    /* Whether FROM_* are from this phase. */
  FROM_NS,    /* What the urgent one had used, and how many commands were complete, at its */
  FROM_COUNT, /* beginning. */
  NAP_NS,     /* What was used in phases of naps, for so many commands. */
  NAP_COUNT,
  FULL_NS, /* The same of phases at full pace. */
  FULL_COUNT,
  CELLS
};
WARPLINE_MAP(slowdowns, WARPLINE_HASH, sizeof(u64), CELLS, 1024);

WARPLINE_INLINE void measure_anew(volatile u64* s, u64 now) {
  s[PHASE] = 1;
  s[BEGAN_NS] = now;
  s[SETTLED] = 0;
  s[NAP_NS] = 0;
  s[NAP_COUNT] = 0;
  s[FULL_NS] = 0;
  s[FULL_COUNT] = 0;
}

WARPLINE_INLINE int naps_in(u64 phase) { return phase & 1; }

/* Notes a phase that is over. By map_add(), since the cell is not known before. */
WARPLINE_INLINE void add_phase(u64 key, volatile u64* s, const struct warpline_on_preempt* ctx) {
  if (!s[SETTLED]) return;
  int naps = naps_in(s[PHASE]);
  map_add(&slowdowns, &key, naps ? NAP_NS : FULL_NS, ctx->waiting_busy_ns - s[FROM_NS]);
  map_add(&slowdowns, &key, naps ? NAP_COUNT : FULL_COUNT, ctx->waiting_commands - s[FROM_COUNT]);
}

/* Whether a command takes so many thousandths at full pace of what it takes beside naps, or more.
 */
WARPLINE_INLINE int is_slower(volatile u64* s, u64 thousandths) {
  return s[FULL_NS] * s[NAP_COUNT] / 1000 >= s[NAP_NS] * s[FULL_COUNT] / 1000 * thousandths / 1000;
}

/* Ends the measurement. */
WARPLINE_INLINE void decide(volatile u64* s, u64 now) {
  u64 naps = s[NAPS];
  if (s[NAP_COUNT] < LEAST_COMMANDS || s[FULL_COUNT] < LEAST_COMMANDS) {
    naps = 0;
  } else {
    naps = is_slower(s, naps ? GOES_ON : BEGINS);
  }
  u64 holds = s[HOLDS_NS] * 2;
  if (naps != s[NAPS] || holds < FIRST_HOLD_NS) holds = FIRST_HOLD_NS;
  if (holds > LAST_HOLD_NS) holds = LAST_HOLD_NS;
  s[NAPS] = naps;
  s[HOLDS_NS] = holds;
  s[UNTIL_NS] = now + holds;
  s[PHASE] = 0;
}

WARPLINE_INLINE void go_on(u64 key, volatile u64* s, const struct warpline_on_preempt* ctx) {
  u64 now = ctx->now_ns;
  u64 passed = now - s[BEGAN_NS];
  if (passed >= PHASE_NS) {
    add_phase(key, s, ctx);
    u64 phases = s[PHASE];
    int enough = s[NAP_COUNT] >= LEAST_COMMANDS && s[FULL_COUNT] >= LEAST_COMMANDS;
    if (phases >= MOST_PHASES || (phases >= PHASES && enough && !naps_in(phases))) {
      decide(s, now);
      return;
    }
    s[PHASE] = phases + 1;
    s[BEGAN_NS] = now;
    s[SETTLED] = 0;
  } else if (passed >= SETTLE_NS && !s[SETTLED]) {
    s[FROM_NS] = ctx->waiting_busy_ns;
    s[FROM_COUNT] = ctx->waiting_commands;
    s[SETTLED] = 1;
  }
}

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  if (ctx->level != 2) return WARPLINE_DEFAULT;
  if (ctx->priority > 0 || ctx->waiting_ns > QUIET_NS) return WARPLINE_KEEP;
  u64 key = (u64)ctx->device << 32 | ctx->vgpu;
  u64 now = ctx->now_ns;
  volatile u64* s = map_lookup(&slowdowns, &key);
  if (!s) {
    /* What cannot be measured, since the map is full, is taken for slower. */
    if (!map_add(&slowdowns, &key, SEEN_NS, now)) return WARPLINE_THROTTLE_US(NAP_US);
    return WARPLINE_KEEP;
  }
  if (s[URGENT] != ctx->waiting_vgpu) {
    s[URGENT] = ctx->waiting_vgpu;
    s[NAPS] = 0;
    s[HOLDS_NS] = 0;
    measure_anew(s, now);
  } else if (now - s[SEEN_NS] > QUIET_NS) {
    /* It was away in the midst of a phase. */
    if (s[PHASE]) measure_anew(s, now);
  }
  s[SEEN_NS] = now;
  if (!s[PHASE] && now >= s[UNTIL_NS]) measure_anew(s, now);
  if (s[PHASE]) go_on(key, s, ctx);
  int naps = s[PHASE] ? naps_in(s[PHASE]) : s[NAPS] != 0;
  return naps ? WARPLINE_THROTTLE_US(NAP_US) : WARPLINE_KEEP;
}
