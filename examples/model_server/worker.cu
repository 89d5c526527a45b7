// The model on a GPU, for one tenant: an ordinary CUDA program. server.cc starts one for each
// tenant under `warpline run`, so that each has a lease and a session of its own.
//
// It reads lines from standard input and answers each with one line:
//
//   start T T ...   begins a text with these tokens. Answer: ok
//   next            goes on with the text. Answer: the next token, a number
//
// It says `ready` at first. Where CUDA fails it says `model_worker: FAILED (WHY)` and ends. It ends
// with its input. Two options have it do something else:
//
//   --check=1                     compares the kernels with the host
//   --reference=TEXT --tokens=N   prints how the host goes on with a text; needs no GPU
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "examples/check.h"
#include "examples/model_server/model.h"
#include "examples/model_server/reference.h"

namespace {

using namespace model;

constexpr int kThreads = 32;

// x = the vector of a token, and the one of its place.
__global__ void Embed(const float* token, const float* position, float* x) {
  x[threadIdx.x] = token[threadIdx.x] + position[threadIdx.x];
}

// y = x, scaled so that its mean square is 1.
__global__ void Normalize(const float* x, float* y) {
  float squares = 0;
  for (int i = 0; i < kWidth; ++i) squares += x[i] * x[i];
  y[threadIdx.x] = x[threadIdx.x] / sqrtf(squares / kWidth + 1e-5f);
}

enum class Then { kStore, kAdd, kStorePositive };

// y = matrix * x, or y += it, or y = its positive part. One thread for each row.
__global__ void Multiply(const float* matrix, int rows, int columns, const float* x, float* y,
                         Then then) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += matrix[row * columns + i] * x[i];
  if (then == Then::kAdd) sum += y[row];
  y[row] = then == Then::kStorePositive ? fmaxf(sum, 0.0f) : sum;
}

// y = for each head, the mean of the values so far by how well their keys go with the query. One
// block for each head.
__global__ void Attend(const float* query, const float* keys, const float* values, int position,
                       float* y) {
  __shared__ float scores[kContext];
  __shared__ float sum;
  const int first = blockIdx.x * kHeadWidth;
  for (int t = threadIdx.x; t <= position; t += blockDim.x) {
    float score = 0;
    for (int i = first; i < first + kHeadWidth; ++i) score += query[i] * keys[t * kWidth + i];
    scores[t] = score / sqrtf(float(kHeadWidth));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float largest = scores[0];
    for (int t = 1; t <= position; ++t) largest = fmaxf(largest, scores[t]);
    sum = 0;
    for (int t = 0; t <= position; ++t) sum += scores[t] = expf(scores[t] - largest);
  }
  __syncthreads();
  if (threadIdx.x >= kHeadWidth) return;
  const int i = first + threadIdx.x;
  float result = 0;
  for (int t = 0; t <= position; ++t) result += scores[t] / sum * values[t * kWidth + i];
  y[i] = result;
}

// Device memory for `count` numbers, which lasts as long as the process.
float* Allocate(size_t count) {
  float* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, count * sizeof(float)));
  return memory;
}

// One text on the GPU. Texts follow each other in the same memory; a new one reads nothing of the
// last.
class Text {
 public:
  explicit Text(const std::vector<float>& weights) {
    weights_ = Allocate(weights.size());
    CUDA_CHECK(cudaMemcpy(weights_, weights.data(), weights.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    for (int layer = 0; layer < kLayers; ++layer) {
      keys_[layer] = Allocate(kContext * kWidth);
      values_[layer] = Allocate(kContext * kWidth);
    }
    for (float** part : {&x_, &normalized_, &query_, &mixed_}) *part = Allocate(kWidth);
    hidden_ = Allocate(kHidden);
    logits_ = Allocate(kVocabulary);
  }

  void Begin() { position_ = 0; }
  int position() const { return position_; }

  // Does what Reference::Read() does.
  std::vector<float> Read(int token) {
    Embed<<<1, kWidth>>>(weights_ + kLayout.token + token * kWidth,
                         weights_ + kLayout.position + position_ * kWidth, x_);
    for (int layer = 0; layer < kLayers; ++layer) {
      const Layer& at = kLayout.layers[layer];
      float* const key = keys_[layer] + position_ * kWidth;
      float* const value = values_[layer] + position_ * kWidth;
      Normalize<<<1, kWidth>>>(x_, normalized_);
      Product(at.query, kWidth, kWidth, normalized_, query_, Then::kStore);
      Product(at.key, kWidth, kWidth, normalized_, key, Then::kStore);
      Product(at.value, kWidth, kWidth, normalized_, value, Then::kStore);
      Attend<<<kHeads, kThreads>>>(query_, keys_[layer], values_[layer], position_, mixed_);
      Product(at.output, kWidth, kWidth, mixed_, x_, Then::kAdd);
      Normalize<<<1, kWidth>>>(x_, normalized_);
      Product(at.up, kHidden, kWidth, normalized_, hidden_, Then::kStorePositive);
      Product(at.down, kWidth, kHidden, hidden_, x_, Then::kAdd);
    }
    Normalize<<<1, kWidth>>>(x_, normalized_);
    Product(kLayout.logits, kVocabulary, kWidth, normalized_, logits_, Then::kStore);
    CUDA_CHECK_LAUNCH();
    ++position_;
    std::vector<float> logits(kVocabulary);
    CUDA_CHECK(
        cudaMemcpy(logits.data(), logits_, kVocabulary * sizeof(float), cudaMemcpyDeviceToHost));
    return logits;
  }

 private:
  void Product(size_t matrix, int rows, int columns, const float* x, float* y, Then then) {
    Multiply<<<(rows + kThreads - 1) / kThreads, kThreads>>>(weights_ + matrix, rows, columns, x, y,
                                                             then);
  }

  float *weights_, *x_, *normalized_, *query_, *mixed_, *hidden_, *logits_;
  float *keys_[kLayers], *values_[kLayers];
  int position_ = 0;
};

int Best(const std::vector<float>& logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int> TokensOf(const std::string& text) {
  std::vector<int> tokens;
  for (const char character : text) {
    if (TokenOf(character) < 0) examples::Fail("the model does not know a character of the text");
    tokens.push_back(TokenOf(character));
  }
  return tokens;
}

// How two texts go on, on the GPU and on the host; the second one reads nothing that the first has
// left.
int Check() {
  const std::vector<float> weights = MakeWeights();
  Text text(weights);
  float worst = 0;
  int tokens = 0;
  for (const char* prompt : {"The lease is", "A second text, which is longer:\n"}) {
    Reference reference(weights);
    text.Begin();
    std::vector<int> given = TokensOf(prompt);
    for (int i = 0; i < 40; ++i, ++tokens) {
      const std::vector<float> ours = text.Read(given[i]);
      const std::vector<float> expected = reference.Read(given[i]);
      for (int j = 0; j < kVocabulary; ++j) {
        const float error = std::fabs(ours[j] - expected[j]);
        if (!(error <= worst)) worst = error;  // A NaN counts as wrong.
      }
      if (i + 1 == static_cast<int>(given.size())) given.push_back(Best(expected));
    }
  }
  examples::Expect(worst < 1e-4f, "the largest error is %g", static_cast<double>(worst));
  return examples::Report("%d tokens of 2 texts", tokens);
}

int PrintReference(const std::string& prompt, int count) {
  Reference reference(MakeWeights());
  std::vector<float> logits;
  for (const int token : TokensOf(prompt)) logits = reference.Read(token);
  for (int i = 0; i < count; ++i) {
    const int token = Best(logits);
    std::putchar(CharacterOf(token));
    if (i + 1 < count) logits = reference.Read(token);
  }
  return 0;
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int Serve() {
  Text text(MakeWeights());
  int next = -1;
  std::string line;
  Say("ready");
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "start") {
      text.Begin();
      for (int token; words >> token;) {
        if (token < 0 || token >= kVocabulary || text.position() == kContext) {
          examples::Fail("bad prompt");
        }
        next = Best(text.Read(token));
      }
      Say("ok");
    } else if (command == "next" && next >= 0) {
      const int token = next;
      if (text.position() < kContext) next = Best(text.Read(token));
      Say(std::to_string(token));
    } else {
      examples::Fail("cannot understand its input");
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "model_worker", "a small language model");
  const bool checks = options.Number("check", 0, "1: compare the kernels with the host") != 0;
  const std::string reference =
      options.Text("reference", "", "print how the host goes on with this text");
  const int tokens =
      static_cast<int>(options.Number("tokens", 16, "how many tokens --reference prints"));
  options.Finish();
  if (checks) return Check();
  if (!reference.empty()) return PrintReference(reference, tokens);
  return Serve();
}
