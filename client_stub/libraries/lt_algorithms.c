/* cuBLASLt's functions for algorithms: the server's library finds some for a call, or a program
 * configures one. What the server has answered is kept. */
#define _GNU_SOURCE
#include "client_stub/libraries/lt_algorithms.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/adapters/blas_types.h"

enum { kAlgorithmMagic = 0x574c414c };
_Static_assert(sizeof(struct lt_algorithm) == 8 * 8, "the size of NVIDIA's");

/* cublasLtMatmulHeuristicResult_t */
struct Result {
  struct lt_algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

static pthread_mutex_t g_mu = PTHREAD_MUTEX_INITIALIZER;

static int Ask(struct warpline_library_question* question) {
  const struct warpline_driver* driver = warpline_driver();
  int result = warpline_enter(driver);
  question->function = kLtMatmulNumber;
  question->count = kLtMatmulValues;
  if (result == CUDA_SUCCESS) result = driver->library_ask(question);
  if (result != CUDA_SUCCESS) return warpline_status(result);
  return question->found != 0 ? kSuccess : kNotSupported;
}

int warpline_lt_put_algorithm(const struct lt_algorithm* algorithm, uint64_t workspace,
                              uint64_t* values) {
  values[kLtMatmulRequested] = 1;
  values[kLtMatmulReductions] = kLtAllReductions;
  values[kLtMatmulWorkspace] = workspace & INT64_MAX;
  if (algorithm == NULL) return kSuccess;
  if (algorithm->magic != kAlgorithmMagic) return kInvalidValue;
  if (algorithm->own) {
    values[kLtMatmulOwn] = 1;
    values[kLtMatmulAlgorithm] = algorithm->config[kLtConfigId];
    for (int i = kLtConfigId + 1; i < kLtConfigAttributes; ++i) {
      values[kLtMatmulOwn + i] = algorithm->config[i];
    }
    return kSuccess;
  }
  values[kLtMatmulAlgorithm] = algorithm->number;
  values[kLtMatmulRequested] = algorithm->requested;
  values[kLtMatmulReductions] = algorithm->reductions;
  values[kLtMatmulWorkspace] = algorithm->workspace;
  return kSuccess;
}

/* --- Heuristics */

/* Answers of the server, each in the place that its question's hash says. */
struct Kept {
  uint64_t question[kLtMatmulValues + 1];
  struct LtAlgorithm algorithms[kLtMostAlgorithms];
  unsigned count; /* 0 when there is no answer here. */
};
enum { kKept = 256 };
static struct Kept g_kept[kKept];

static struct Kept* PlaceOf(const uint64_t* question) {
  uint64_t hash = 0;
  for (int i = 0; i <= kLtMatmulValues; ++i) hash = (hash ^ question[i]) * 0x9e3779b97f4a7c15u;
  return &g_kept[(hash >> 40) % kKept];
}

/* Gets the algorithms for values that have alignments for addresses. */
static int AskAlgorithms(const uint64_t* values, unsigned modes, struct LtAlgorithm* algorithms,
                         unsigned* count) {
  uint64_t key[kLtMatmulValues + 1];
  memcpy(key, values, kLtMatmulValues * sizeof(*values));
  key[kLtMatmulValues] = modes;
  struct Kept* const kept = PlaceOf(key);
  pthread_mutex_lock(&g_mu);
  const int is_known = kept->count != 0 && memcmp(kept->question, key, sizeof(key)) == 0;
  if (is_known) {
    *count = kept->count;
    memcpy(algorithms, kept->algorithms, sizeof(kept->algorithms));
  }
  pthread_mutex_unlock(&g_mu);
  if (is_known) return kSuccess;
  struct warpline_library_question question = {.question = kLtAskAlgorithms,
                                               .modes = modes,
                                               .values = values,
                                               .answers = algorithms,
                                               .bytes = sizeof(*algorithms),
                                               .most = kLtMostAlgorithms};
  const int status = Ask(&question);
  if (status != kSuccess) return status;
  *count = question.found;
  pthread_mutex_lock(&g_mu);
  memcpy(kept->question, key, sizeof(key));
  memcpy(kept->algorithms, algorithms, sizeof(kept->algorithms));
  kept->count = *count;
  pthread_mutex_unlock(&g_mu);
  return kSuccess;
}

/* The values of a question about a call: addresses of the same alignment take the places of its
 * own, and leave room for a second plane before the first one. */
static int PutQuestion(const struct lt_description* description, struct lt_matrices* matrices,
                       const uint32_t* alignments, uint64_t* values) {
  for (int i = 0; i < 4; ++i) {
    matrices->at[i] =
        ((uint64_t)1 << 40) + (alignments == NULL ? kLtMostAlignment : LtAlignment(alignments[i]));
  }
  const int status = warpline_lt_values(description, matrices, values);
  if (status != kSuccess) return status;
  for (int i = 0; i < kLtOtherAddresses; ++i)
    values[kLtOthers[i]] = LtAlignment(values[kLtOthers[i]]);
  for (int i = 0; i < kLtMatrices; ++i) values[kLtOperands[i].array] = kLtMostAlignment;
  return kSuccess;
}

static void PutTypes(struct lt_algorithm* algorithm, const struct lt_description* description,
                     const struct lt_matrices* matrices) {
  algorithm->types[0] = (uint8_t)description->compute;
  algorithm->types[1] = (uint8_t)description->scale;
  algorithm->types[2] = (uint8_t)matrices->a->type;
  algorithm->types[3] = (uint8_t)matrices->b->type;
  algorithm->types[4] = (uint8_t)matrices->c->type;
  algorithm->types[5] = (uint8_t)matrices->d->type;
}

int cublasLtMatmulAlgoGetHeuristic(struct cublasContext* handle,
                                   const struct lt_description* description,
                                   const struct lt_layout* a, const struct lt_layout* b,
                                   const struct lt_layout* c, const struct lt_layout* d,
                                   const struct lt_preference* preference, int requested,
                                   struct Result* results, int* returned);
int cublasLtMatmulAlgoGetHeuristic(struct cublasContext* handle,
                                   const struct lt_description* description,
                                   const struct lt_layout* a, const struct lt_layout* b,
                                   const struct lt_layout* c, const struct lt_layout* d,
                                   const struct lt_preference* preference, int requested,
                                   struct Result* results, int* returned) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (preference == NULL || results == NULL || returned == NULL || requested < 1) {
    return kInvalidValue;
  }
  *returned = 0;
  LT_WITHOUT(preference->search != 0, "a search mode");
  LT_WITHOUT(preference->waves != 0, "a bound of waves");
  LT_WITHOUT(preference->implementations != ~(uint64_t)0, "a mask of implementations");
  struct lt_matrices matrices = {a, b, c, d, {0, 0, 0, 0}};
  uint64_t values[kLtMatmulValues];
  int status = PutQuestion(description, &matrices, preference->alignments, values);
  if (status != kSuccess) return status;
  const int most = requested < kLtMostAlgorithms ? requested : kLtMostAlgorithms;
  values[kLtMatmulRequested] = (uint64_t)most;
  values[kLtMatmulReductions] = preference->reductions & kLtAllReductions;
  values[kLtMatmulWorkspace] = preference->workspace & INT64_MAX;
  struct LtAlgorithm algorithms[kLtMostAlgorithms];
  unsigned count = 0;
  status = AskAlgorithms(values, warpline_lt_modes(description), algorithms, &count);
  if (status != kSuccess) return status;
  for (int i = 0; i < most && i < (int)count; ++i) {
    struct Result* const result = &results[i];
    memset(result, 0, sizeof(*result));
    result->algorithm.magic = kAlgorithmMagic;
    result->algorithm.number = (uint8_t)i;
    result->algorithm.requested = (uint8_t)most;
    result->algorithm.reductions = (uint8_t)values[kLtMatmulReductions];
    result->algorithm.workspace = values[kLtMatmulWorkspace];
    memcpy(result->algorithm.config, algorithms[i].config, sizeof(algorithms[i].config));
    PutTypes(&result->algorithm, description, &matrices);
    for (int j = 0; j < 4; ++j) {
      const uint64_t alignment = LtAlignment(preference->alignments[j]);
      result->algorithm.alignments[j] = (uint8_t)__builtin_ctzll(alignment);
    }
    result->workspace = algorithms[i].workspace;
    result->waves = algorithms[i].waves;
    ++*returned;
  }
  return kSuccess;
}

/* --- Algorithms that a program configures */

/* The algorithms for some types. They are never freed: types are few. */
struct Kinds {
  struct Kinds* next;
  uint8_t types[6];
  unsigned count;
  struct LtKind kinds[kLtMostKinds];
};
static struct Kinds* g_kinds; /* Guarded by g_mu. */

static const struct Kinds* LookForKinds(const uint8_t* types) {
  pthread_mutex_lock(&g_mu);
  const struct Kinds* kinds = g_kinds;
  while (kinds != NULL && memcmp(kinds->types, types, sizeof(kinds->types)) != 0) {
    kinds = kinds->next;
  }
  pthread_mutex_unlock(&g_mu);
  return kinds;
}

/* Gets the algorithms for types, those of struct lt_algorithm. */
static int FindKinds(const uint8_t* types, const struct Kinds** found) {
  *found = LookForKinds(types);
  if (*found != NULL) return kSuccess;
  LT_WITHOUT(types[2] == kInteger8, "an algorithm of the program's own for 8-bit integers");
  LT_WITHOUT(types[2] == kComplex16 || types[2] == kComplexBrain16,
             "an algorithm of the program's own for planes");
  /* A small call of these types, in the form that 8-bit floating point has. */
  struct lt_layout layouts[kLtMatrices];
  for (int i = 0; i < kLtMatrices; ++i) {
    cublasLtMatrixLayoutInit_internal(&layouts[i], sizeof(layouts[i]), types[2 + i], 16, 16, 16);
  }
  struct lt_description description;
  cublasLtMatmulDescInit_internal(&description, sizeof(description), types[0], types[1]);
  description.trans[0] = 1;
  struct lt_matrices matrices = {&layouts[0], &layouts[1], &layouts[2], &layouts[3], {0}};
  uint64_t values[kLtMatmulValues];
  int status = PutQuestion(&description, &matrices, NULL, values);
  if (status == kSuccess) status = warpline_lt_put_algorithm(NULL, 0, values);
  if (status != kSuccess) return status;
  struct Kinds* const kinds = calloc(1, sizeof(*kinds));
  if (kinds == NULL) return kAllocFailed;
  struct warpline_library_question question = {.question = kLtAskKinds,
                                               .values = values,
                                               .answers = kinds->kinds,
                                               .bytes = sizeof(kinds->kinds[0]),
                                               .most = kLtMostKinds};
  status = Ask(&question);
  if (status != kSuccess) {
    free(kinds);
    return status;
  }
  memcpy(kinds->types, types, sizeof(kinds->types));
  kinds->count = question.found;
  pthread_mutex_lock(&g_mu);
  kinds->next = g_kinds;
  g_kinds = kinds;
  pthread_mutex_unlock(&g_mu);
  *found = kinds;
  return kSuccess;
}

static int FindKind(const uint8_t* types, uint32_t id, const struct LtKind** kind) {
  const struct Kinds* kinds = NULL;
  const int status = FindKinds(types, &kinds);
  if (status != kSuccess) return status;
  for (unsigned i = 0; i < kinds->count; ++i) {
    *kind = &kinds->kinds[i];
    if ((*kind)->id == id) return kSuccess;
  }
  return kNotSupported;
}

static int GetTypes(int compute, int scale, int a, int b, int c, int d, uint8_t* types) {
  const int all[] = {compute, scale, a, b, c, d};
  for (int i = 0; i < 6; ++i) {
    if (all[i] < 0 || all[i] > UINT8_MAX) return kInvalidValue;
    types[i] = (uint8_t)all[i];
  }
  return kSuccess;
}

int cublasLtMatmulAlgoGetIds(struct cublasContext* handle, int compute, int scale, int a, int b,
                             int c, int d, int requested, int* ids, int* returned);
int cublasLtMatmulAlgoGetIds(struct cublasContext* handle, int compute, int scale, int a, int b,
                             int c, int d, int requested, int* ids, int* returned) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  uint8_t types[6];
  if (requested < 1 || ids == NULL || returned == NULL) return kInvalidValue;
  *returned = 0;
  const struct Kinds* kinds = NULL;
  int status = GetTypes(compute, scale, a, b, c, d, types);
  if (status == kSuccess) status = FindKinds(types, &kinds);
  if (status != kSuccess) return status;
  for (unsigned i = 0; i < kinds->count && *returned < requested; ++i) {
    ids[(*returned)++] = (int)kinds->kinds[i].id;
  }
  return kSuccess;
}

int cublasLtMatmulAlgoInit(struct cublasContext* handle, int compute, int scale, int a, int b,
                           int c, int d, int id, struct lt_algorithm* algorithm);
int cublasLtMatmulAlgoInit(struct cublasContext* handle, int compute, int scale, int a, int b,
                           int c, int d, int id, struct lt_algorithm* algorithm) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (algorithm == NULL) return kInvalidValue;
  memset(algorithm, 0, sizeof(*algorithm));
  const struct LtKind* kind = NULL;
  int status = GetTypes(compute, scale, a, b, c, d, algorithm->types);
  if (status == kSuccess) status = FindKind(algorithm->types, (uint32_t)id, &kind);
  if (status != kSuccess) return status;
  algorithm->magic = kAlgorithmMagic;
  algorithm->own = 1;
  algorithm->config[kLtConfigId] = kind->id;
  algorithm->config[kLtConfigSplits] = 1;
  return kSuccess;
}

/* Writes an attribute of `has` bytes. With no room it says how many there are. */
static int PutAttribute(const void* from, size_t has, void* value, size_t bytes, size_t* written) {
  if (bytes == 0) {
    if (written == NULL) return kInvalidValue;
  } else {
    if (value == NULL || bytes < has) return kInvalidValue;
    memcpy(value, from, has);
  }
  if (written != NULL) *written = has;
  return kSuccess;
}

static int PutBits(const uint32_t* words, unsigned bits, void* value, size_t bytes,
                   size_t* written) {
  uint32_t numbers[32 * kLtTileWords];
  size_t count = 0;
  for (unsigned i = 0; i < bits; ++i) {
    if (LtHasBit(words, bits, i)) numbers[count++] = i;
  }
  return PutAttribute(numbers, count * sizeof(*numbers), value, bytes, written);
}

int cublasLtMatmulAlgoCapGetAttribute(const struct lt_algorithm* algorithm, int number, void* value,
                                      size_t bytes, size_t* written);
int cublasLtMatmulAlgoCapGetAttribute(const struct lt_algorithm* algorithm, int number, void* value,
                                      size_t bytes, size_t* written) {
  if (algorithm == NULL || algorithm->magic != kAlgorithmMagic) return kInvalidValue;
  const struct LtKind* kind = NULL;
  const int status = FindKind(algorithm->types, algorithm->config[kLtConfigId], &kind);
  if (status != kSuccess) return status;
  switch (number) {
    case kLtTiles:
      return PutBits(kind->tiles, 32 * kLtTileWords, value, bytes, written);
    case kLtStages:
      return PutBits(kind->stages, 32 * kLtStageWords, value, bytes, written);
    case kLtNumericalFlags:
      return PutAttribute(&kind->flags, sizeof(kind->flags), value, bytes, written);
    default:
      if (number < 0 || number >= kLtCapabilities || (kind->known >> number & 1) == 0) {
        return kInvalidValue;
      }
      return PutAttribute(&kind->capabilities[number], sizeof(uint32_t), value, bytes, written);
  }
}

static size_t ConfigBytes(int number) {
  return number < kLtFirstShort ? sizeof(uint32_t) : sizeof(uint16_t);
}

int cublasLtMatmulAlgoConfigGetAttribute(const struct lt_algorithm* algorithm, int number,
                                         void* value, size_t bytes, size_t* written);
int cublasLtMatmulAlgoConfigGetAttribute(const struct lt_algorithm* algorithm, int number,
                                         void* value, size_t bytes, size_t* written) {
  if (algorithm == NULL || algorithm->magic != kAlgorithmMagic || number < 0 ||
      number >= kLtConfigAttributes) {
    return kInvalidValue;
  }
  /* The first bytes of a number are its low ones. */
  return PutAttribute(&algorithm->config[number], ConfigBytes(number), value, bytes, written);
}

/* An algorithm that the library has found becomes the program's own by this. */
int cublasLtMatmulAlgoConfigSetAttribute(struct lt_algorithm* algorithm, int number,
                                         const void* value, size_t bytes);
int cublasLtMatmulAlgoConfigSetAttribute(struct lt_algorithm* algorithm, int number,
                                         const void* value, size_t bytes) {
  if (algorithm == NULL || algorithm->magic != kAlgorithmMagic || value == NULL ||
      number <= kLtConfigId || number >= kLtConfigAttributes || bytes != ConfigBytes(number)) {
    return kInvalidValue;
  }
  algorithm->config[number] = 0;
  memcpy(&algorithm->config[number], value, bytes);
  algorithm->own = 1;
  return kSuccess;
}

int cublasLtMatmulAlgoCheck(struct cublasContext* handle, const struct lt_description* description,
                            const struct lt_layout* a, const struct lt_layout* b,
                            const struct lt_layout* c, const struct lt_layout* d,
                            const struct lt_algorithm* algorithm, struct Result* result);
int cublasLtMatmulAlgoCheck(struct cublasContext* handle, const struct lt_description* description,
                            const struct lt_layout* a, const struct lt_layout* b,
                            const struct lt_layout* c, const struct lt_layout* d,
                            const struct lt_algorithm* algorithm, struct Result* result) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (algorithm == NULL || result == NULL) return kInvalidValue;
  const struct lt_algorithm checked = *algorithm; /* It may lie in the result. */
  struct lt_matrices matrices = {a, b, c, d, {0, 0, 0, 0}};
  uint64_t values[kLtMatmulValues];
  /* One of the library's is looked for among those that it was found with. */
  uint32_t alignments[4];
  for (int i = 0; i < 4; ++i) alignments[i] = 1u << (checked.alignments[i] % 16);
  int status = PutQuestion(description, &matrices, checked.own ? NULL : alignments, values);
  if (status == kSuccess) status = warpline_lt_put_algorithm(&checked, INT64_MAX, values);
  if (status != kSuccess) return status;
  struct lt_algorithm types;
  PutTypes(&types, description, &matrices);
  if (memcmp(types.types, checked.types, sizeof(types.types)) != 0) return kInvalidValue;
  struct LtAlgorithm found[kLtMostAlgorithms];
  unsigned count = 0;
  status = AskAlgorithms(values, warpline_lt_modes(description), found, &count);
  if (status != kSuccess) return status;
  const unsigned place = checked.own ? 0 : checked.number;
  if (place >= count) return kNotSupported;
  result->workspace = found[place].workspace;
  result->waves = found[place].waves;
  result->state = kSuccess;
  return kSuccess;
}
