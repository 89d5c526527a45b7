// Kernels as nvcc compiles them, whose results do not depend on the order of threads. Each reads
// 4096 words and writes 4096 words; 16 blocks of 256 threads.
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define INDEX const int i = blockIdx.x * blockDim.x + threadIdx.x

__device__ float AsUnit(uint32_t v) { return (v >> 8) * (1.0f / 16777216.0f); }

__constant__ uint32_t kTable[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ uint32_t g_scale = 7;
__device__ uint32_t* g_pointer = &g_scale;

KERNEL block_reduce(const uint32_t* in, uint32_t* out) {
  INDEX;
  __shared__ uint32_t part[256];
  part[threadIdx.x] = in[i];
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  out[i] = part[0] ^ part[threadIdx.x];
}

KERNEL warp_scan(const uint32_t* in, uint32_t* out) {
  INDEX;
  uint32_t v = in[i];
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t other = __shfl_up_sync(~0u, v, d);
    if ((threadIdx.x & 31) >= d) v += other;
  }
  __shared__ uint32_t sums[8];
  if ((threadIdx.x & 31) == 31) sums[threadIdx.x / 32] = v;
  __syncthreads();
  for (int w = 0; w < threadIdx.x / 32; ++w) v += sums[w];
  out[i] = v;
}

KERNEL histogram(const uint32_t* in, uint32_t* out) {
  INDEX;
  __shared__ uint32_t bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < 4; ++k) atomicAdd(&bins[(in[i] >> (8 * k)) & 255], k + 1);
  __syncthreads();
  out[i] = bins[threadIdx.x];
}

KERNEL warp_aggregate(const uint32_t* in, uint32_t* out) {
  INDEX;
  const uint32_t key = in[i] & 7;
  const uint32_t peers = __match_any_sync(~0u, key);
  const int leader = __ffs(peers) - 1;
  const uint32_t count = __shfl_sync(peers, __popc(peers), leader);
  const uint32_t any = __ballot_sync(peers, in[i] & 64);
  out[i] = count * 1000 + leader + any;
}

__device__ __noinline__ uint32_t Collatz(uint32_t n) {
  uint32_t steps = 0;
  while (n > 1 && steps < 500) {
    n = (n & 1) ? 3 * n + 1 : n / 2;
    ++steps;
  }
  return steps;
}
KERNEL collatz(const uint32_t* in, uint32_t* out) {
  INDEX;
  out[i] = Collatz(in[i] >> 12);
}

__device__ __noinline__ uint32_t Ackermann(uint32_t m, uint32_t n) {
  if (m == 0) return n + 1;
  if (n == 0) return Ackermann(m - 1, 1);
  return Ackermann(m - 1, Ackermann(m, n - 1));
}
KERNEL ackermann(const uint32_t* in, uint32_t* out) {
  INDEX;
  out[i] = Ackermann(in[i] & 1, (in[i] >> 4) & 7) + Ackermann(2, in[i] & 3);
}

KERNEL insertion_sort(const uint32_t* in, uint32_t* out) {
  INDEX;
  uint32_t local[24];
  for (int k = 0; k < 24; ++k) local[k] = in[(i + k * 37) & 4095];
  for (int k = 1; k < 24; ++k) {
    const uint32_t v = local[k];
    int j = k - 1;
    while (j >= 0 && local[j] > v) {
      local[j + 1] = local[j];
      --j;
    }
    local[j + 1] = v;
  }
  out[i] = local[in[i] % 24];
}

KERNEL switches(const uint32_t* in, uint32_t* out) {
  INDEX;
  uint32_t v = in[i];
  for (int k = 0; k < 20; ++k) {
    switch (v % 9) {
      case 0:
        v = v / 3 + 1;
        break;
      case 1:
        v ^= v << 13;
        break;
      case 2:
        v = __brev(v);
        break;
      case 3:
        v += kTable[v & 15] * *g_pointer;
        break;
      case 4:
        if (k > 10) {
          out[i] = v;
          return;
        }
        v = ~v;
        break;
      case 5:
        v = __byte_perm(v, k, 0x2143);
        break;
      case 6:
        v = __funnelshift_l(v, v >> 3, k);
        break;
      case 7:
        continue;
      default:
        v = v * 1664525 + 1013904223;
    }
  }
  out[i] = v;
}

KERNEL wide_integers(const uint32_t* in, uint32_t* out) {
  INDEX;
  const uint64_t a = (uint64_t(in[i]) << 32) | in[(i + 1) & 4095];
  const int64_t b =
      int64_t((uint64_t(in[(i + 2) & 4095]) << 16) | in[(i + 3) & 4095]) - (1ll << 40);
  const uint64_t high = __umul64hi(a, uint64_t(b));
  const int64_t quotient = b != 0 ? int64_t(a) / b : 0;
  const int64_t rest = b != 0 ? int64_t(a) % b : 0;
  out[i] = uint32_t(high ^ high >> 32) ^ uint32_t(quotient) ^ uint32_t(rest) ^
           uint32_t(__clzll(a) + __popcll(b) + __ffsll(a)) ^ uint32_t((a << (b & 63)) >> 32);
}

KERNEL doubles(const uint32_t* in, uint32_t* out) {
  INDEX;
  const double x = in[i] * (1.0 / 65536.0) - 30000.0;
  const double y = in[(i + 7) & 4095] * (1.0 / 4294967296.0) + 0.01;
  double r = sqrt(fabs(x)) / y + floor(x) * y - fmod(x, y + 1.0);
  r = fma(r, y, x) + rint(r) + (x < 0 ? trunc(y * 1e6) : ceil(x));
  out[i] = uint32_t(__double_as_longlong(r) ^ (__double_as_longlong(r) >> 32)) ^ uint32_t(int(r));
}

KERNEL double_functions(const uint32_t* in, uint32_t* out) {
  INDEX;
  const double x = in[i] * (1.0 / 4294967296.0) * 20 - 10;
  const double y = in[(i + 9) & 4095] * (1.0 / 4294967296.0) + 0.1;
  // Rounded, since a last bit may differ where hardware approximates.
  const double r = sin(x) + cos(x * 100000) + exp(x) * 1e-4 + log(y) + pow(y, x * 0.1) +
                   atan2(x, y) + erf(x) + cbrt(y) + tanh(x) + asin(y * 0.9) + log1p(y) + expm1(y) +
                   hypot(x, y);
  out[i] = uint32_t(int(rint(r * 1e6)));
}

// The results are rounded here as well.
KERNEL float_functions(const uint32_t* in, uint32_t* out) {
  INDEX;
  const float x = AsUnit(in[i]) * 20 - 10;
  const float y = AsUnit(in[(i + 9) & 4095]) + 0.1f;
  const float r = sinf(x) + cosf(x * 100000.0f) + logf(y) + atan2f(x, y) + cbrtf(y) + fmodf(x, y) +
                  sqrtf(y) / x + roundf(x) + ldexpf(y, int(x)) + floorf(x) + log2f(y) +
                  asinf(y * 0.9f);
  out[i] = uint32_t(int(rintf(r * 100)));
}

KERNEL conversions(const uint32_t* in, uint32_t* out) {
  INDEX;
  const uint32_t v = in[i];
  const float f = __uint_as_float((v & 0x807fffff) | ((v >> 4 & 63) + 96) << 23);
  uint32_t r = uint32_t(int(f)) ^ uint32_t(f * 3) ^ uint32_t((long long)(f * 1e6f));
  r += uint8_t(v) * int8_t(v >> 8) + short(v >> 3) + (unsigned short)(v >> 7);
  r ^= __float_as_uint(float(int(v))) + __float_as_uint(float((unsigned long long)v << 20));
  r += uint32_t(__float2int_ru(f)) * 3 + uint32_t(__float2int_rd(f)) * 5 +
       __double2int_rn(double(f) * 1.5);
  out[i] = r;
}

struct Particle {
  float4 where;
  short3 cell;
  unsigned char tag;
};
__device__ __noinline__ Particle Step(Particle p, const float (&force)[3]) {
  p.where.x += force[0] * p.where.w;
  p.where.y += force[1] * p.where.w;
  p.where.z += force[2] * p.where.w;
  p.cell.x = short(p.where.x);
  p.cell.y = short(p.where.y * 2);
  p.cell.z = short(p.where.z * 3);
  p.tag = (unsigned char)(p.tag * 3 + 1);
  return p;
}
KERNEL structures(const uint32_t* in, uint32_t* out) {
  INDEX;
  Particle p{{AsUnit(in[i]), 2, 3, 0.5f}, {1, 2, 3}, (unsigned char)in[i]};
  const float force[3] = {AsUnit(in[(i + 1) & 4095]), 40, -2};
  for (int k = 0; k < 5; ++k) p = Step(p, force);
  out[i] = __float_as_uint(p.where.x) ^ uint32_t(p.cell.y) ^ (p.tag << 24) ^ uint32_t(p.cell.z);
}

KERNEL tiled_matmul(const uint32_t* in, uint32_t* out) {
  __shared__ float a[16][16], b[16][17];
  const int x = threadIdx.x & 15, y = threadIdx.x / 16;
  const int row = (blockIdx.x / 4) * 16 + y, column = (blockIdx.x % 4) * 16 + x;
  float sum = 0;
  for (int t = 0; t < 4; ++t) {
    a[y][x] = AsUnit(in[row * 64 + t * 16 + x]);
    b[y][x] = AsUnit(in[(t * 16 + y) * 64 + column]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
    __syncthreads();
  }
  out[row * 64 + column] = __float_as_uint(sum);
}

// Threads of a warp take turns, which works with independent thread scheduling only.
KERNEL spin_lock(const uint32_t* in, uint32_t* out) {
  INDEX;
  __shared__ unsigned lock;
  __shared__ volatile uint32_t total;
  if (threadIdx.x == 0) {
    lock = 0;
    total = 0;
  }
  __syncthreads();
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0u, 1u) == 0u) {
      total = total + (in[i] & 255);
      __threadfence_block();
      atomicExch(&lock, 0u);
      done = true;
    }
  }
  __syncthreads();
  out[i] = total;
}

KERNEL bitonic(const uint32_t* in, uint32_t* out) {
  INDEX;
  extern __shared__ uint32_t values[];
  values[threadIdx.x] = in[i];
  __syncthreads();
  for (unsigned k = 2; k <= 256; k <<= 1) {
    for (unsigned j = k / 2; j > 0; j >>= 1) {
      const unsigned other = threadIdx.x ^ j;
      if (other > threadIdx.x) {
        const bool up = (threadIdx.x & k) == 0;
        if ((values[threadIdx.x] > values[other]) == up) {
          const uint32_t t = values[threadIdx.x];
          values[threadIdx.x] = values[other];
          values[other] = t;
        }
      }
      __syncthreads();
    }
  }
  out[i] = values[threadIdx.x];
}
