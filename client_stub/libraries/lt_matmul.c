/* cublasLtMatmul() and its heuristics: the contents of the descriptors become the values of a call
 * that the server makes (proto/adapters/cublas_slots.h).
 *
 * An algorithm is a number: the server's library found several for a call, and this says which one.
 * It lies in the program's memory, where it may become anything; the server looks at it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "client_stub/libraries/cublas_handle.h"
#include "client_stub/libraries/lt_descriptors.h"
#include "client_stub/shim/log_line.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_types.h"

enum { kAlgorithmMagic = 0x574c414c };

/* cublasLtMatmulAlgo_t */
struct Algorithm {
  uint32_t magic;
  uint8_t number, requested, reductions, unused; /* Slots of the call. */
  uint64_t workspace;                            /* A slot, too. */
  uint32_t config[kLtConfigAttributes];
  uint32_t rest[3];
};
_Static_assert(sizeof(struct Algorithm) == 8 * 8, "the size of NVIDIA's");

/* cublasLtMatmulHeuristicResult_t */
struct Result {
  struct Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

/* The matrices of a call: descriptors, and addresses or alignments. */
struct Matrices {
  const struct lt_layout *a, *b, *c, *d;
  uint64_t at[4];
};

static int Unsupported(const char* what, char* said) {
  if (!__atomic_test_and_set(said, __ATOMIC_RELAXED)) {
    WarplineLogLine('W', "cublas",
                    "cublasLtMatmul: %s is not supported on the guarded tier (docs/libraries.md)",
                    what);
  }
  return kNotSupported;
}

/* Returns from the function when the descriptor has something that the server does not do. */
#define WITHOUT(condition, what)                    \
  do {                                              \
    static char said;                               \
    if (condition) return Unsupported(what, &said); \
  } while (0)

static int CheckLayout(const struct lt_layout* layout) {
  if (layout->rows == 0 || layout->columns == 0 || layout->batch_count < 1) return kInvalidValue;
  if (layout->rows > INT32_MAX || layout->columns > INT32_MAX || layout->leading > INT32_MAX) {
    return kNotSupported;
  }
  WITHOUT(layout->order != 0 && layout->order != 1, "an order other than by columns or rows");
  WITHOUT(layout->batch_mode != 0, "an array of addresses");
  WITHOUT(layout->plane_offset != 0, "a plane offset");
  return kSuccess;
}

static int CheckDescription(const struct lt_description* description, int type) {
  WITHOUT(description->trans[2] != 0, "a transposed C");
  WITHOUT(description->fill_mode != 2, "a fill mode");
  WITHOUT(description->pointer_mode != 0 && description->pointer_mode != 1,
          "a vector of scalars on the device");
  for (int i = 0; i < 5; ++i) WITHOUT(description->scales[i] != 0, "a scale pointer");
  for (int i = 0; i < 6; ++i) WITHOUT(description->scale_modes[i] != 0, "a scale mode");
  WITHOUT(description->largest[0] != 0 || description->largest[1] != 0,
          "the largest absolute value (AMAX)");
  WITHOUT(description->out_scale != 0, "an output scale");
  WITHOUT(description->emulation != 0, "emulation");
  WITHOUT(description->scale != LtScaleType(description->compute, type), "this scale type");
  WITHOUT(description->bias_type != -1 && description->bias_type != type,
          "a bias of another type than D");
  WITHOUT(description->aux_type != -1 && description->aux_type != type &&
              (description->epilogue & (kLtGelu | kLtGeluGradient)) != 0,
          "auxiliary memory of another type than D");
  return kSuccess;
}

/* Puts a matrix into the values: its address, type, order, leading dimension and stride. C and D
 * have one type, which goes with C. */
static void PutMatrix(uint64_t* values, int slot, int order, const struct lt_layout* layout,
                      uint64_t at) {
  values[slot] = at;
  values[order] = (uint64_t)layout->order;
  values[order + 1] = (uint64_t)layout->leading;
  values[order + 2] = layout->batch_count == 1 ? 0 : (uint64_t)layout->stride;
}

/* Puts the epilogue's memory into the values. Every leading dimension is at least 1. */
static int PutEpilogue(const struct lt_description* description, uint64_t* values) {
  const uint64_t epilogue = description->epilogue & ~(uint32_t)kLtDefault;
  values[kLtMatmulEpilogue] = epilogue;
  values[kLtMatmulLdaux] = 1;
  if ((epilogue & (kLtBiasGradient | kLtSumsOfA | kLtSumsOfB)) != 0) {
    values[kLtMatmulGradient] = description->bias;
  } else if ((epilogue & kLtBias) != 0) {
    values[kLtMatmulBias] = description->bias;
  }
  values[kLtMatmulStrideBias] = (uint64_t)description->bias_stride;
  if ((epilogue & kLtAuxiliary) == 0) return kSuccess;
  const int is_mask = (epilogue & (kLtRelu | kLtReluGradient)) != 0;
  const int reads = (epilogue & (kLtReluGradient | kLtGeluGradient)) != 0;
  const int64_t unit = is_mask ? kLtMaskBits : kLtAuxElements;
  if (description->aux_leading % unit != 0 || description->aux_stride % unit != 0) {
    return kInvalidValue;
  }
  const int slot = is_mask ? (reads ? kLtMatmulMaskRead : kLtMatmulMaskWritten)
                           : (reads ? kLtMatmulAuxRead : kLtMatmulAuxWritten);
  values[slot] = description->aux;
  values[kLtMatmulLdaux] = (uint64_t)(description->aux_leading / unit);
  values[kLtMatmulStrideAux] = (uint64_t)(description->aux_stride / unit);
  return kSuccess;
}

/* Fills the values but for scalars and the algorithm. */
static int PutValues(const struct lt_description* description, const struct Matrices* matrices,
                     uint64_t* values) {
  const struct lt_layout *a = matrices->a, *b = matrices->b, *c = matrices->c, *d = matrices->d;
  memset(values, 0, kLtMatmulValues * sizeof(*values));
  if (description == NULL || a == NULL || b == NULL || c == NULL || d == NULL) return kInvalidValue;
  const struct lt_layout* const layouts[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    const int status = CheckLayout(layouts[i]);
    if (status != kSuccess) return status;
    if (layouts[i]->batch_count != d->batch_count) return kInvalidValue;
  }
  const int status = CheckDescription(description, d->type);
  if (status != kSuccess) return status;
  const int ta = description->trans[0] != 0, tb = description->trans[1] != 0;
  const uint64_t m = d->rows, n = d->columns, k = ta ? a->rows : a->columns;
  if ((ta ? a->columns : a->rows) != m || (tb ? b->rows : b->columns) != n ||
      (tb ? b->columns : b->rows) != k || c->rows != m || c->columns != n) {
    return kInvalidValue;
  }
  WITHOUT(c->type != d->type, "a C of another type than D");
  values[kLtMatmulTransa] = (uint64_t)(int64_t)description->trans[0];
  values[kLtMatmulTransb] = (uint64_t)(int64_t)description->trans[1];
  values[kLtMatmulM] = m;
  values[kLtMatmulN] = n;
  values[kLtMatmulK] = k;
  PutMatrix(values, kLtMatmulA, kLtMatmulOrderA, a, matrices->at[0]);
  PutMatrix(values, kLtMatmulB, kLtMatmulOrderB, b, matrices->at[1]);
  PutMatrix(values, kLtMatmulC, kLtMatmulOrderC, c, matrices->at[2]);
  PutMatrix(values, kLtMatmulD, kLtMatmulOrderD, d, matrices->at[3]);
  values[kLtMatmulAtype] = (uint64_t)(int64_t)a->type;
  values[kLtMatmulBtype] = (uint64_t)(int64_t)b->type;
  values[kLtMatmulCtype] = (uint64_t)(int64_t)d->type;
  values[kLtMatmulBatchCount] = (uint64_t)d->batch_count;
  values[kLtMatmulComputeType] = (uint64_t)(int64_t)description->compute;
  return PutEpilogue(description, values);
}

static unsigned ModesOf(const struct lt_description* description) {
  return description->pointer_mode != 0 ? 1u : 0u;
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
static pthread_mutex_t g_mu = PTHREAD_MUTEX_INITIALIZER;

static struct Kept* PlaceOf(const uint64_t* question) {
  uint64_t hash = 0;
  for (int i = 0; i <= kLtMatmulValues; ++i) hash = (hash ^ question[i]) * 0x9e3779b97f4a7c15u;
  return &g_kept[(hash >> 40) % kKept];
}

/* Gets the algorithms for values that have alignments for addresses. */
static int Ask(const uint64_t* values, unsigned modes, struct LtAlgorithm* algorithms,
               unsigned* count) {
  uint64_t question[kLtMatmulValues + 1];
  memcpy(question, values, kLtMatmulValues * sizeof(*values));
  question[kLtMatmulValues] = modes;
  struct Kept* const kept = PlaceOf(question);
  pthread_mutex_lock(&g_mu);
  const int is_known = kept->count != 0 && memcmp(kept->question, question, sizeof(question)) == 0;
  if (is_known) {
    *count = kept->count;
    memcpy(algorithms, kept->algorithms, sizeof(kept->algorithms));
  }
  pthread_mutex_unlock(&g_mu);
  if (is_known) return kSuccess;
  const struct warpline_driver* driver = warpline_driver();
  int result = warpline_enter(driver);
  if (result == CUDA_SUCCESS) {
    result = driver->library_ask(kLtMatmulNumber, modes, values, kLtMatmulValues, algorithms,
                                 kLtMostAlgorithms, count);
  }
  if (result != CUDA_SUCCESS || *count == 0) {
    return result == CUDA_SUCCESS ? kNotSupported : warpline_status(result);
  }
  pthread_mutex_lock(&g_mu);
  memcpy(kept->question, question, sizeof(question));
  memcpy(kept->algorithms, algorithms, sizeof(kept->algorithms));
  kept->count = *count;
  pthread_mutex_unlock(&g_mu);
  return kSuccess;
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
  WITHOUT(preference->search != 0, "a search mode");
  WITHOUT(preference->waves != 0, "a bound of waves");
  WITHOUT(preference->implementations != ~(uint64_t)0, "a mask of implementations");
  struct Matrices matrices = {a, b, c, d, {0, 0, 0, 0}};
  for (int i = 0; i < 4; ++i) matrices.at[i] = LtAlignment(preference->alignments[i]);
  uint64_t values[kLtMatmulValues];
  int status = PutValues(description, &matrices, values);
  if (status != kSuccess) return status;
  values[kLtMatmulBias] = LtAlignment(values[kLtMatmulBias]);
  for (int slot = kLtMatmulMaskRead; slot <= kLtMatmulAuxWritten; ++slot) {
    values[slot] = LtAlignment(values[slot]);
  }
  values[kLtMatmulGradient] = LtAlignment(values[kLtMatmulGradient]);
  const int most = requested < kLtMostAlgorithms ? requested : kLtMostAlgorithms;
  values[kLtMatmulRequested] = (uint64_t)most;
  values[kLtMatmulReductions] = preference->reductions & kLtAllReductions;
  values[kLtMatmulWorkspace] = preference->workspace & INT64_MAX;
  struct LtAlgorithm algorithms[kLtMostAlgorithms];
  unsigned count = 0;
  status = Ask(values, ModesOf(description), algorithms, &count);
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
    result->workspace = algorithms[i].workspace;
    result->waves = algorithms[i].waves;
    ++*returned;
  }
  return kSuccess;
}

int cublasLtMatmulAlgoConfigGetAttribute(const struct Algorithm* algorithm, int number, void* value,
                                         size_t bytes, size_t* written);
int cublasLtMatmulAlgoConfigGetAttribute(const struct Algorithm* algorithm, int number, void* value,
                                         size_t bytes, size_t* written) {
  if (algorithm == NULL || algorithm->magic != kAlgorithmMagic || number < 0 ||
      number >= kLtConfigAttributes) {
    return kInvalidValue;
  }
  const size_t has = number < kLtFirstShort ? sizeof(uint32_t) : sizeof(uint16_t);
  if (bytes == 0 ? written == NULL : value == NULL || bytes != has) return kInvalidValue;
  /* The first bytes of a number are its low ones. */
  if (bytes != 0) memcpy(value, &algorithm->config[number], has);
  if (written != NULL) *written = has;
  return kSuccess;
}

/* --- The product */

int cublasLtMatmul(struct cublasContext* handle, const struct lt_description* description,
                   const void* alpha, const void* a, const struct lt_layout* a_layout,
                   const void* b, const struct lt_layout* b_layout, const void* beta, const void* c,
                   const struct lt_layout* c_layout, void* d, const struct lt_layout* d_layout,
                   const struct Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   CUstream stream);
int cublasLtMatmul(struct cublasContext* handle, const struct lt_description* description,
                   const void* alpha, const void* a, const struct lt_layout* a_layout,
                   const void* b, const struct lt_layout* b_layout, const void* beta, const void* c,
                   const struct lt_layout* c_layout, void* d, const struct lt_layout* d_layout,
                   const struct Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   CUstream stream) {
  (void)workspace; /* The server has its own: a tenant's kernels could write to the tenant's. */
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (alpha == NULL || beta == NULL) return kInvalidValue;
  struct Matrices matrices = {a_layout,
                              b_layout,
                              c_layout,
                              d_layout,
                              {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d}};
  uint64_t values[kLtMatmulValues];
  /* Without a C there is none to read. */
  if (c == NULL) {
    matrices.c = d_layout;
    matrices.at[2] = matrices.at[3];
  }
  int status = PutValues(description, &matrices, values);
  if (status != kSuccess) return status;
  const int bytes = (int)BlasScalarBytes(description->compute, d_layout->type);
  if (bytes == 0) return kNotSupported;
  if (description->pointer_mode == 0) {
    memcpy(&values[kLtMatmulAlpha], alpha, (size_t)bytes);
    memcpy(&values[kLtMatmulBeta], beta, (size_t)bytes);
    if (c == NULL && (values[kLtMatmulBeta] != 0 || values[kLtMatmulBeta + 1] != 0)) {
      return kInvalidValue;
    }
  } else {
    values[kLtMatmulAlpha] = (uintptr_t)alpha;
    values[kLtMatmulBeta] = (uintptr_t)beta;
  }
  values[kLtMatmulRequested] = 1;
  values[kLtMatmulReductions] = kLtAllReductions;
  values[kLtMatmulWorkspace] = workspace_bytes & INT64_MAX;
  if (algorithm != NULL) {
    if (algorithm->magic != kAlgorithmMagic) return kInvalidValue;
    values[kLtMatmulAlgorithm] = algorithm->number;
    values[kLtMatmulRequested] = algorithm->requested;
    values[kLtMatmulReductions] = algorithm->reductions;
    values[kLtMatmulWorkspace] = algorithm->workspace;
  }
  const struct warpline_driver* driver = warpline_driver();
  int result = warpline_enter(driver);
  if (result == CUDA_SUCCESS) {
    result = driver->library_call(stream, kLtMatmulNumber, ModesOf(description), values,
                                  kLtMatmulValues);
  }
  return warpline_status(result);
}
