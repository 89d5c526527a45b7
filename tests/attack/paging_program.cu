// A program of the paging suite, which does with its device memory what its standard input says, a
// line at a time, and answers each line with one.
//
//   take BYTES       takes so much in one piece         took BYTES, or refused ERROR
//   take all         takes pieces until one is refused  took BYTES
//   fill PATTERN     writes the word everywhere         filled N words
//   sparse SEED      writes words in some places, and zeros elsewhere (Expected())
//                                                       filled N words
//   search PATTERN   looks for the word                 found N of M words, K not zero
//   check SEED       compares with `sparse`             wrong N of M words
//   work N           N times, adds 1 to a word of each block by a kernel, and checks the sums
//                                                       did N, wrong W
//   storm SEED       takes, touches and gives back memory of random sizes, and says so at once
//                                                       storms
//   calm             ends that                          rounds N, refused M
//   offer            offers each piece to other processes
//                                                       offered N of M pieces
//
// Between lines it does nothing. It ends when its standard input does.
#include <cuda_runtime.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                                   \
  do {                                                                                     \
    if (const cudaError_t result = (call); result != cudaSuccess) {                        \
      std::fprintf(stderr, "paging_program: %s: %s\n", #call, cudaGetErrorString(result)); \
      std::printf("failed %s\n", cudaGetErrorName(result));                                \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (false)

namespace {

// Host memory for what is away is given out in blocks of this size (SwapSpace::kGranule).
constexpr uint64_t kBlockBytes = 2 << 20;
constexpr uint64_t kBlockWords = kBlockBytes / 4;
// The most bytes that a storm takes at once.
constexpr uint64_t kMostStorm = 14 << 20;

struct Piece {
  uint32_t* words;
  uint64_t bytes;
  uint64_t count() const { return bytes / 4; }
};

std::vector<Piece> g_pieces;

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

// The word at an address: a third of the blocks have zeros alone, a third a word in a thousand, and
// a third words in their second half.
uint32_t Expected(uint64_t seed, uint64_t address) {
  const uint64_t block = address / kBlockBytes, word = address / 4;
  const uint64_t random = Mix(word ^ seed << 48);
  const bool written = block % 3 == 1   ? random % 1000 == 0 || word % kBlockWords == 0
                       : block % 3 == 2 ? word % kBlockWords >= kBlockWords / 2
                                        : false;
  return written ? static_cast<uint32_t>(random >> 32) | 1 : 0;
}

cudaError_t Take(uint64_t bytes) {
  Piece piece = {nullptr, bytes};
  const cudaError_t result = cudaMalloc(&piece.words, bytes);
  if (result == cudaSuccess) {
    g_pieces.push_back(piece);
  } else {
    (void)cudaGetLastError();
  }
  return result;
}

void GiveBackAll() {
  for (const Piece& piece : g_pieces) CUDA_CHECK(cudaFree(piece.words));
  g_pieces.clear();
}

// Calls visit(words, count, address) with a block of the memory after the other, copied to the
// host.
template <typename Visit>
void ForEachBlock(bool copies_back, Visit visit) {
  std::vector<uint32_t> words(kBlockWords);
  for (const Piece& piece : g_pieces) {
    for (uint64_t at = 0; at < piece.count(); at += kBlockWords) {
      const uint64_t count = std::min(kBlockWords, piece.count() - at);
      if (!copies_back) {
        CUDA_CHECK(cudaMemcpy(words.data(), piece.words + at, count * 4, cudaMemcpyDeviceToHost));
      }
      visit(words.data(), count, reinterpret_cast<uint64_t>(piece.words + at));
      if (copies_back) {
        CUDA_CHECK(cudaMemcpy(piece.words + at, words.data(), count * 4, cudaMemcpyHostToDevice));
      }
    }
  }
}

template <typename Word>
void Write(Word word_at) {
  uint64_t filled = 0;
  ForEachBlock(/*copies_back=*/true, [&](uint32_t* words, uint64_t count, uint64_t address) {
    for (uint64_t i = 0; i < count; ++i) words[i] = word_at(address + i * 4);
    filled += count;
  });
  std::printf("filled %" PRIu64 " words\n", filled);
}

void Search(uint32_t pattern) {
  uint64_t found = 0, looked = 0, other = 0;
  ForEachBlock(/*copies_back=*/false, [&](const uint32_t* words, uint64_t count, uint64_t) {
    for (uint64_t i = 0; i < count; ++i) {
      found += words[i] == pattern;
      other += words[i] != 0;
    }
    looked += count;
  });
  std::printf("found %" PRIu64 " of %" PRIu64 " words, %" PRIu64 " not zero\n", found, looked,
              other);
}

void Check(uint64_t seed) {
  uint64_t wrong = 0, looked = 0;
  ForEachBlock(/*copies_back=*/false, [&](const uint32_t* words, uint64_t count, uint64_t address) {
    for (uint64_t i = 0; i < count; ++i) wrong += words[i] != Expected(seed, address + i * 4);
    looked += count;
  });
  std::printf("wrong %" PRIu64 " of %" PRIu64 " words\n", wrong, looked);
}

__global__ void Touch(uint32_t* words, uint64_t count, uint32_t more) {
  const uint64_t at = uint64_t{blockIdx.x} * kBlockWords;
  if (at < count) words[at] += more;
}

void TouchAll(uint32_t more) {
  for (const Piece& piece : g_pieces) {
    const auto blocks = static_cast<unsigned>((piece.count() + kBlockWords - 1) / kBlockWords);
    Touch<<<blocks, 1>>>(piece.words, piece.count(), more);
  }
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
}

void Work(uint32_t times) {
  std::vector<uint32_t> before, after;
  const auto read = [](std::vector<uint32_t>* sums) {
    ForEachBlock(/*copies_back=*/false,
                 [&](const uint32_t* words, uint64_t, uint64_t) { sums->push_back(words[0]); });
  };
  read(&before);
  for (uint32_t i = 0; i < times; ++i) TouchAll(1);
  read(&after);
  uint32_t wrong = 0;
  for (size_t i = 0; i < before.size(); ++i) wrong += after[i] - before[i] != times;
  std::printf("did %u, wrong %u\n", times, wrong);
}

bool HasInput() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

void Storm(uint64_t seed) {
  std::printf("storms\n");
  std::fflush(stdout);
  uint64_t rounds = 0, refused = 0;
  while (!HasInput()) {
    uint64_t left = kMostStorm;
    while (left >= kBlockBytes && !HasInput()) {
      const uint64_t blocks = 1 + Mix(++seed) % (left / kBlockBytes);
      if (Take(blocks * kBlockBytes) != cudaSuccess) {
        ++refused;
        break;
      }
      left -= blocks * kBlockBytes;
      TouchAll(static_cast<uint32_t>(seed) | 1);
    }
    GiveBackAll();
    ++rounds;
  }
  for (int c = std::getchar(); c != '\n' && c != EOF; c = std::getchar()) {
  }
  std::printf("rounds %" PRIu64 ", refused %" PRIu64 "\n", rounds, refused);
}

void Offer() {
  size_t offered = 0;
  for (const Piece& piece : g_pieces) {
    cudaIpcMemHandle_t handle;
    offered += cudaIpcGetMemHandle(&handle, piece.words) == cudaSuccess ? 1 : 0;
  }
  (void)cudaGetLastError();
  std::printf("offered %zu of %zu pieces\n", offered, g_pieces.size());
}

void TakeAsSaid(const char* what) {
  uint64_t bytes = 0;
  if (std::strcmp(what, "all") == 0) {
    while (Take(kBlockBytes) == cudaSuccess) bytes += kBlockBytes;
  } else {
    bytes = std::strtoull(what, nullptr, 10);
    if (const cudaError_t result = Take(bytes); result != cudaSuccess) {
      std::printf("refused %s\n", cudaGetErrorName(result));
      return;
    }
  }
  std::printf("took %" PRIu64 "\n", bytes);
}

void Obey(const std::string& verb, const char* what) {
  const uint64_t number = std::strtoull(what, nullptr, 0);
  if (verb == "take") {
    TakeAsSaid(what);
  } else if (verb == "fill") {
    Write([number](uint64_t) { return static_cast<uint32_t>(number); });
  } else if (verb == "sparse") {
    Write([number](uint64_t address) { return Expected(number, address); });
  } else if (verb == "search") {
    Search(static_cast<uint32_t>(number));
  } else if (verb == "check") {
    Check(number);
  } else if (verb == "work") {
    Work(static_cast<uint32_t>(number));
  } else if (verb == "offer") {
    Offer();
  } else if (verb == "storm") {
    Storm(number);
  } else {
    std::printf("what is %s\n", verb.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main() {
  // Without a buffer, poll() tells of each line that is not read yet.
  std::setvbuf(stdin, nullptr, _IONBF, 0);
  CUDA_CHECK(cudaFree(nullptr));
  char verb[16], what[32];
  while (std::scanf("%15s %31s", verb, what) == 2) {
    std::getchar();  // The line's end.
    Obey(verb, what);
  }
  return 0;
}
