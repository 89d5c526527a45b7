// Runs a fuzz target without a fuzzer: over every file of a corpus, then over seeded mutations of
// them. Link it with a LLVMFuzzerTestOneInput; pass the corpus files through `args`.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutations = 3000;

std::vector<std::string> g_files;

void RunOn(const std::string& bytes) {
  // This copy is exactly as long as the input, so that a sanitizer sees a read behind its end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

std::string Mutate(const std::string& seed, const std::string& other, std::mt19937* random) {
  std::string bytes = seed;
  const auto below = [&](size_t n) { return n == 0 ? 0 : (*random)() % n; };
  const size_t count = 1 + below(4);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = below(bytes.size());
    const size_t length = below(16) + 1;
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, other.substr(below(other.size()), below(64)));
        break;
      default:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
    }
  }
  return bytes;
}

TEST(FuzzReplay, CorpusAndMutations) {
  std::vector<std::string> corpus;
  for (const std::string& file : g_files) {
    std::ifstream in(file, std::ios::binary);
    ASSERT_TRUE(in) << file;
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    RunOn(corpus.back());
  }
  ASSERT_FALSE(corpus.empty());
  std::mt19937 random(20261121);
  for (int i = 0; i < kMutations; ++i) {
    const std::string& seed = corpus[random() % corpus.size()];
    RunOn(Mutate(seed, corpus[random() % corpus.size()], &random));
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  g_files.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
