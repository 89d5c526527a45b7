// The language model of this example: a transformer of two layers whose tokens are characters. Its
// weights are numbers from a generator, the same in each process, so it needs no file and says
// nothing sensible. A copy of it has a trained model here.
//
// Everything here is stateless and for the host. worker.cu computes the model on a GPU, and
// reference.h with plain loops.
#ifndef WARPLINE_EXAMPLES_MODEL_SERVER_MODEL_H_
#define WARPLINE_EXAMPLES_MODEL_SERVER_MODEL_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace model {

constexpr int kVocabulary = 96;  // Printable ASCII, and the line end.
constexpr int kWidth = 32;       // Numbers of a token's vector.
constexpr int kHeads = 2;        // Parts of attention.
constexpr int kHeadWidth = kWidth / kHeads;
constexpr int kHidden = 64;  // Between the two matrices of the feed-forward part.
constexpr int kLayers = 2;
constexpr int kContext = 1024;  // Tokens of a prompt and its continuation together.

// The token of a character; -1 for one that the model does not know.
constexpr int TokenOf(char character) {
  if (character == '\n') return kVocabulary - 1;
  return character >= ' ' && character <= '~' ? character - ' ' : -1;
}

constexpr char CharacterOf(int token) {
  return token == kVocabulary - 1 ? '\n' : static_cast<char>(' ' + token);
}

// Where each matrix begins among the weights. Matrices are row-major, with a row for each output.
struct Layer {
  size_t query, key, value, output;  // kWidth x kWidth
  size_t up;                         // kHidden x kWidth
  size_t down;                       // kWidth x kHidden
};

struct Layout {
  size_t token;     // kVocabulary x kWidth: the vector of each token.
  size_t position;  // kContext x kWidth: a vector that is added at each place.
  Layer layers[kLayers];
  size_t logits;  // kVocabulary x kWidth
  size_t size;    // All weights together.
};

constexpr Layout MakeLayout() {
  Layout layout = {};
  size_t next = 0;
  const auto take = [&next](size_t rows, size_t columns) {
    const size_t at = next;
    next += rows * columns;
    return at;
  };
  layout.token = take(kVocabulary, kWidth);
  layout.position = take(kContext, kWidth);
  for (Layer& layer : layout.layers) {
    layer.query = take(kWidth, kWidth);
    layer.key = take(kWidth, kWidth);
    layer.value = take(kWidth, kWidth);
    layer.output = take(kWidth, kWidth);
    layer.up = take(kHidden, kWidth);
    layer.down = take(kWidth, kHidden);
  }
  layout.logits = take(kVocabulary, kWidth);
  layout.size = next;
  return layout;
}

constexpr Layout kLayout = MakeLayout();

// All weights, with the mean 0. Those of matrices keep the size of what they multiply.
inline std::vector<float> MakeWeights() {
  std::vector<float> weights(kLayout.size);
  uint64_t state = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < weights.size(); ++i) {
    // SplitMix64.
    state += 0x9e3779b97f4a7c15;
    uint64_t bits = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    const float uniform = static_cast<float>(bits >> 40) / (1 << 24) * 2 - 1;
    const bool is_vector = i < kLayout.layers[0].query;
    weights[i] = uniform * (is_vector ? 1.0f : std::sqrt(3.0f / kWidth));
  }
  return weights;
}

}  // namespace model

#endif  // WARPLINE_EXAMPLES_MODEL_SERVER_MODEL_H_
