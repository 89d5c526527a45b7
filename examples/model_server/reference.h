// The model in plain loops on the host: what the kernels of worker.cu are compared with.
#ifndef WARPLINE_EXAMPLES_MODEL_SERVER_REFERENCE_H_
#define WARPLINE_EXAMPLES_MODEL_SERVER_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "examples/model_server/model.h"

namespace model {

// Reads one text, token by token. Thread-compatible.
class Reference {
 public:
  explicit Reference(std::vector<float> weights) : weights_(std::move(weights)) {}

  // Reads the next token. Returns how well each token goes on from there: kVocabulary numbers. At
  // most kContext tokens.
  std::vector<float> Read(int token) {
    std::vector<float> x(kWidth);
    for (int i = 0; i < kWidth; ++i) {
      x[i] = weights_[kLayout.token + token * kWidth + i] +
             weights_[kLayout.position + position_ * kWidth + i];
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      const Layer& at = kLayout.layers[layer];
      Add(Product(at.output, kWidth, Attend(layer, Normalized(x))), &x);
      std::vector<float> hidden = Product(at.up, kHidden, Normalized(x));
      for (float& value : hidden) value = std::max(value, 0.0f);
      Add(Product(at.down, kWidth, hidden), &x);
    }
    ++position_;
    return Product(kLayout.logits, kVocabulary, Normalized(x));
  }

 private:
  static void Add(const std::vector<float>& from, std::vector<float>* to) {
    for (size_t i = 0; i < to->size(); ++i) (*to)[i] += from[i];
  }

  static std::vector<float> Normalized(const std::vector<float>& x) {
    float squares = 0;
    for (const float value : x) squares += value * value;
    std::vector<float> result = x;
    for (float& value : result) value /= std::sqrt(squares / kWidth + 1e-5f);
    return result;
  }

  std::vector<float> Product(size_t matrix, int rows, const std::vector<float>& x) const {
    std::vector<float> result(rows);
    for (int row = 0; row < rows; ++row) {
      for (size_t i = 0; i < x.size(); ++i)
        result[row] += weights_[matrix + row * x.size() + i] * x[i];
    }
    return result;
  }

  // Returns what each head takes from the tokens so far, for the vector `x` of the newest.
  std::vector<float> Attend(int layer, const std::vector<float>& x) {
    const Layer& at = kLayout.layers[layer];
    const std::vector<float> query = Product(at.query, kWidth, x);
    keys_[layer].push_back(Product(at.key, kWidth, x));
    values_[layer].push_back(Product(at.value, kWidth, x));
    std::vector<float> result(kWidth);
    for (int first = 0; first < kWidth; first += kHeadWidth) {
      std::vector<float> scores(position_ + 1);
      for (int t = 0; t <= position_; ++t) {
        for (int i = first; i < first + kHeadWidth; ++i) scores[t] += query[i] * keys_[layer][t][i];
        scores[t] /= std::sqrt(static_cast<float>(kHeadWidth));
      }
      const float largest = *std::max_element(scores.begin(), scores.end());
      float sum = 0;
      for (float& score : scores) sum += score = std::exp(score - largest);
      for (int t = 0; t <= position_; ++t) {
        for (int i = first; i < first + kHeadWidth; ++i) {
          result[i] += scores[t] / sum * values_[layer][t][i];
        }
      }
    }
    return result;
  }

  const std::vector<float> weights_;
  std::vector<std::vector<float>> keys_[kLayers], values_[kLayers];  // One for each token so far.
  int position_ = 0;
};

}  // namespace model

#endif  // WARPLINE_EXAMPLES_MODEL_SERVER_REFERENCE_H_
