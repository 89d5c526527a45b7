// Feeds a corpus and seeded mutations of it to a fuzz target, without libFuzzer: what every test
// run can afford. A crash or a sanitizer's report is the failure.
//
//   NAME_replay FILE...
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerFile = 2000;

void Feed(const std::string& bytes) {
  // In memory of exactly this size, so that a sanitizer sees a read past the end.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void Mutate(std::mt19937_64& random, const std::vector<std::string>& corpus, std::string* bytes) {
  for (int i = random() % 5; i >= 0 && !bytes->empty(); --i) {
    const size_t at = random() % bytes->size();
    const std::string& other = corpus[random() % corpus.size()];
    switch (random() % 6) {
      case 0:
        (*bytes)[at] = static_cast<char>(random());
        break;
      case 1:
        (*bytes)[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2:
        bytes->resize(at);
        break;
      case 3:
        bytes->erase(at, random() % 32);
        break;
      case 4:
        bytes->insert(at, bytes->substr(random() % bytes->size(), random() % 32));
        break;
      default:
        if (!other.empty()) bytes->insert(at, other.substr(random() % other.size(), random() % 64));
        break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus\n");
    return 1;
  }
  std::mt19937_64 random(20240229);
  size_t inputs = 0;
  for (const std::string& seed : corpus) {
    Feed(seed);
    for (int i = 0; i < kMutationsPerFile; ++i, ++inputs) {
      std::string bytes = seed;
      Mutate(random, corpus, &bytes);
      Feed(bytes);
    }
  }
  std::printf("%zu files, %zu mutations\n", corpus.size(), inputs);
  return 0;
}
