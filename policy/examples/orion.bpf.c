/* Orion: kernels of best-effort tenants are kept apart from an urgent tenant's where they slow
 * these down, and go beside them where they do not.
 *
 * After Orion (Strati et al., EuroSys 2024), which co-runs kernels that want different things of a
 * device, by profiles that were made before. Here it is measured, for each slice that the urgent
 * one has beside it: in one phase the slice launches nothing while the urgent one is at work, in
 * the next it goes on as if alone, and so on, and what a command of the urgent one takes in both is
 * compared. A verdict holds for a second, and for twice as long each time that it is found again,
 * so that what is measured costs neither of them much. Whoever is kept apart goes on in the urgent
 * one's pauses: beside one that has none it does not go on at all. */
#include "warpline_policy.h"

WARPLINE_POLICY();

#define MS 1000000ull
/* For so long at once, unless it is decided anew before, as it is at each look. */
#define APART_US 2000
#define PAUSE_NS (1 * MS)  /* After so long without work the urgent tenant pauses. */
#define AWAY_NS (100 * MS) /* After so long it is gone, and what was begun of a phase is void. */
/* A phase, and how much of its beginning does not count: work of the phase before is in flight, and
 * the device's clock follows its load in tens of milliseconds. */
#define PHASE_NS (100 * MS)
#define SETTLE_NS (40 * MS)
/* Phases of a measurement, of which every other one is apart; more where the urgent tenant has few
 * commands, and none of it counts if these are too few for long. */
#define PHASES 8
#define MOST_PHASES 64
#define LEAST_COMMANDS 16
#define FIRST_HOLD_NS (1000 * MS)
#define LAST_HOLD_NS (32000 * MS)
/* In thousandths: by how much commands take longer beside the slice where it begins to be kept
 * apart, and where it goes on to be. */
#define BEGINS 1100
#define GOES_ON 1050

/* Slices of a device that have a place in the map, by the last bits of their numbers, which are
 * never given twice. Two that have the same bits begin anew each time, and go on beside the urgent
 * one. */
#define PLACES 128

enum {
  SLICE,      /* Whom the rest is about, */
  URGENT,     /* and beside whom. */
  SEEN_NS,    /* The last time that it was at work. */
  APART,      /* The verdict: whether the slice is kept apart. */
  HOLDS_NS,   /* For so long from its beginning. */
  UNTIL_NS,   /* The end of that; the next measurement follows. */
  PHASE,      /* The number of the phase; 0 while nothing is measured. */
  BEGAN_NS,   /* Its beginning. */
  SETTLED,    /* Whether FROM_* are from this phase. */
  FROM_NS,    /* What the urgent one had used, and how many commands were complete, */
  FROM_COUNT, /* when it had settled. */
  APART_NS,   /* What was used in phases apart, for so many commands. */
  APART_COUNT,
  BESIDE_NS, /* The same of the other phases. */
  BESIDE_COUNT,
  CELLS
};
WARPLINE_MAP(slowdowns, WARPLINE_HASH, sizeof(u64), CELLS, 1024);

/* Of each device: which slice is measured. What two slices do to the urgent one at the same time
 * could not be told apart, so the others are left as they are meanwhile. */
enum { MEASURED, MEASURED_NS, TURN_CELLS };
WARPLINE_MAP(turns, WARPLINE_HASH, sizeof(u64), TURN_CELLS, 64);

/* Whether the slice may be measured now. Its turn ends with the verdict, or when it is away. */
WARPLINE_INLINE int has_turn(u64 device, u64 key, u64 now) {
  volatile u64* turn = map_lookup(&turns, &device);
  if (!turn) {
    map_add(&turns, &device, MEASURED, key);
    map_add(&turns, &device, MEASURED_NS, now);
    return 1;
  }
  if (turn[MEASURED] != key && now - turn[MEASURED_NS] <= AWAY_NS) return 0;
  turn[MEASURED] = key;
  turn[MEASURED_NS] = now;
  return 1;
}

WARPLINE_INLINE void measure_anew(volatile u64* s, u64 now) {
  s[PHASE] = 1;
  s[BEGAN_NS] = now;
  s[SETTLED] = 0;
  s[APART_NS] = 0;
  s[APART_COUNT] = 0;
  s[BESIDE_NS] = 0;
  s[BESIDE_COUNT] = 0;
}

WARPLINE_INLINE int is_apart(u64 phase) { return phase & 1; }

/* Notes a phase that is over. By map_add(), since the cell is not known before. */
WARPLINE_INLINE void add_phase(u64 key, volatile u64* s, const struct warpline_on_preempt* ctx) {
  if (!s[SETTLED]) return;
  int apart = is_apart(s[PHASE]);
  map_add(&slowdowns, &key, apart ? APART_NS : BESIDE_NS, ctx->waiting_busy_ns - s[FROM_NS]);
  map_add(&slowdowns, &key, apart ? APART_COUNT : BESIDE_COUNT,
          ctx->waiting_commands - s[FROM_COUNT]);
}

/* Whether a command takes so many thousandths beside the slice of what it takes without it, or
 * more.
 */
WARPLINE_INLINE int is_slower(volatile u64* s, u64 thousandths) {
  return s[BESIDE_NS] * s[APART_COUNT] / 1000 >=
         s[APART_NS] * s[BESIDE_COUNT] / 1000 * thousandths / 1000;
}

/* Ends the measurement. */
WARPLINE_INLINE void decide(volatile u64* s, u64 now) {
  u64 apart = s[APART];
  if (s[APART_COUNT] < LEAST_COMMANDS || s[BESIDE_COUNT] < LEAST_COMMANDS) {
    apart = 0;
  } else {
    apart = is_slower(s, apart ? GOES_ON : BEGINS);
  }
  u64 holds = s[HOLDS_NS] * 2;
  if (apart != s[APART] || holds < FIRST_HOLD_NS) holds = FIRST_HOLD_NS;
  if (holds > LAST_HOLD_NS) holds = LAST_HOLD_NS;
  s[APART] = apart;
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
    int enough = s[APART_COUNT] >= LEAST_COMMANDS && s[BESIDE_COUNT] >= LEAST_COMMANDS;
    if (phases >= MOST_PHASES || (phases >= PHASES && enough && !is_apart(phases))) {
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

WARPLINE_INLINE u64 verdict(u64 apart) {
  return apart ? WARPLINE_HOLD_US(APART_US) : WARPLINE_KEEP;
}

SEC("on_preempt")
u64 preempt(const struct warpline_on_preempt* ctx) {
  if (ctx->level != 2) return WARPLINE_DEFAULT;
  if (ctx->priority > 0 || ctx->waiting_ns > PAUSE_NS) return WARPLINE_KEEP;
  u64 key = (u64)ctx->device << 32 | (ctx->vgpu & (PLACES - 1));
  u64 now = ctx->now_ns;
  volatile u64* s = map_lookup(&slowdowns, &key);
  if (!s) {
    map_add(&slowdowns, &key, SEEN_NS, now);
    return WARPLINE_KEEP;
  }
  if (s[SLICE] != ctx->vgpu || s[URGENT] != ctx->waiting_vgpu) {
    s[SLICE] = ctx->vgpu;
    s[URGENT] = ctx->waiting_vgpu;
    s[APART] = 0;
    s[HOLDS_NS] = 0;
    s[UNTIL_NS] = 0;
    s[PHASE] = 0;
  } else if (now - s[SEEN_NS] > AWAY_NS) {
    s[PHASE] = 0;
  }
  s[SEEN_NS] = now;
  if (!s[PHASE] && now < s[UNTIL_NS]) return verdict(s[APART]);
  u64 device = ctx->device;
  if (!has_turn(device, key, now)) {
    s[PHASE] = 0;
    return verdict(s[APART]);
  }
  if (!s[PHASE]) measure_anew(s, now);
  go_on(key, s, ctx);
  if (s[PHASE]) return verdict(is_apart(s[PHASE]));
  map_add(&turns, &device, MEASURED_NS, -now);
  return verdict(s[APART]);
}
