#include "client_stub/private_tables/compile_cache.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "client_stub/private_tables/compiled_ptx.h"
#include "client_stub/private_tables/export_tables.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using MakeKey = int(void**, int, const void*, uint32_t, const char*, const char*, const char*, int,
                    int);

template <typename Function>
Function* Slot(int slot) {
  return reinterpret_cast<Function*>(const_cast<void*>(CompileCacheTable()[slot]));
}

void* Key(const std::string& source, const char* options, int kind = 1, int first = 7) {
  void* key = nullptr;
  EXPECT_EQ(Slot<MakeKey>(1)(&key, kind, source.data(), static_cast<uint32_t>(source.size()),
                             options, "HOST64", "a build", first, 5),
            0);
  return key;
}

// Returns the result that is kept for a key; empty when there is none.
std::string Find(void* key) {
  void* data = nullptr;
  uint32_t bytes = 0;
  if (Slot<int(void*, int, void**, uint32_t*)>(3)(key, 0, &data, &bytes) != 0) return "";
  std::string found(static_cast<char*>(data), bytes);
  EXPECT_EQ(Slot<int(void*)>(6)(data), 0);
  return found;
}

int Keep(void* key, const std::string& result) {
  return Slot<int(void*, int, const void*, uint32_t)>(4)(key, 0, result.data(),
                                                         static_cast<uint32_t>(result.size()));
}

const std::string kPtx = ".version 9.0\n.target sm_90\n.address_size 64\n";

void Destroy(void* key) { EXPECT_EQ(Slot<int(void*)>(2)(key), 0); }

TEST(CompileCacheTest, HasMoreThanSixSlots) {
  EXPECT_GT(reinterpret_cast<size_t>(CompileCacheTable()[0]), 0x30u);
  EXPECT_NE(Slot<int()>(5)(), 0);
}

TEST(CompileCacheTest, EveryInputOfACompilationCounts) {
  void* key = Key(kPtx, "-arch=sm_90");
  EXPECT_EQ(Find(key), "");
  ASSERT_EQ(Keep(key, "code"), 0);
  EXPECT_EQ(Find(key), "code");
  Destroy(key);
  void* same = Key(kPtx, "-arch=sm_90");
  EXPECT_EQ(Find(same), "code");
  Destroy(same);
  for (void* other :
       {Key(kPtx + "-", "arch=sm_90"), Key(kPtx, "-arch=sm_80"), Key(kPtx, nullptr),
        Key(kPtx, "-arch=sm_90", 2), Key(kPtx, "-arch=sm_90", 1, 8), Key("", "-arch=sm_90")}) {
    EXPECT_EQ(Find(other), "");
    Destroy(other);
  }
}

TEST(CompileCacheTest, MachineCodeHangsOnThePtxThatBecameOfItsSource) {
  void* code = Key("a program", "-arch=sm_90");
  EXPECT_NE(Keep(code, "nobody knows the options"), 0);
  EXPECT_EQ(Find(code), "");
  Destroy(code);
  for (const std::string& ptx : {kPtx, kPtx + "// Fast.\n"}) {
    void* text = Key("a program", ptx == kPtx ? "" : "-ftz=1", 2);
    ASSERT_EQ(Keep(text, ptx), 0);
    Destroy(text);
    code = Key("a program", "-arch=sm_90");
    EXPECT_EQ(Find(code), "");
    ASSERT_EQ(Keep(code, "code of " + ptx), 0);
    EXPECT_EQ(Find(code), "code of " + ptx);
    Destroy(code);
  }
  // Another process finds the text before it asks for the code.
  void* text = Key("a program", "", 2);
  EXPECT_EQ(Find(text), kPtx);
  Destroy(text);
  code = Key("a program", "-arch=sm_90");
  EXPECT_EQ(Find(code), "code of " + kPtx);
  Destroy(code);
}

TEST(CompileCacheTest, ThePtxBehindMachineCodeIsKept) {
  std::string code("\177ELF\2\1\1", 7);
  code.resize(64);
  EXPECT_EQ(PtxBehind(code), nullptr);
  void* key = Key(kPtx, "-arch=sm_90");
  ASSERT_EQ(Keep(key, code), 0);
  Destroy(key);
  ASSERT_NE(PtxBehind(code), nullptr);
  EXPECT_EQ(*PtxBehind(code), kPtx);
  // Nobody compiles so much in between, but another process may load the code.
  for (int i = 0; i < 70; ++i) {
    key = Key(kPtx + std::string(1 << 20, '\n') + std::to_string(i), "-arch=sm_90");
    Keep(key, code + std::to_string(i));
    Destroy(key);
  }
  EXPECT_EQ(ProcessCompiledPtx().Find(code), nullptr);
  ASSERT_NE(PtxBehind(code), nullptr);
  EXPECT_EQ(*PtxBehind(code), kPtx);
}

TEST(CompileCacheTest, CodeOfAWholeProgramHasThePtxOfTheStepWithin) {
  std::string code("\177ELF\2\1\1", 7);
  code.resize(64, 'w');
  // nvJitLink does this with -lto. PTX of the program was made before, with other options.
  void* text = Key("a linked program", "-ptx", 2);
  ASSERT_EQ(Keep(text, kPtx), 0);
  Destroy(text);
  const auto link = [&] {
    void* whole = Key("a linked program", "-ftz=1", 2);
    EXPECT_EQ(Find(whole), "");
    void* step = Key(kPtx + "// Fast.\n", "-arch=sm_90");
    ASSERT_EQ(Keep(step, code), 0);
    Destroy(step);
    ASSERT_EQ(Keep(whole, code), 0);
    Destroy(whole);
  };
  link();
  ASSERT_NE(PtxBehind(code), nullptr);
  EXPECT_EQ(*PtxBehind(code), kPtx + "// Fast.\n");
  void* whole = Key("a linked program", "-ftz=1", 2);
  EXPECT_EQ(Find(whole), code);
  Destroy(whole);
  // Code whose PTX nobody knows any more is no hit.
  whole = Key("another linked program", "", 2);
  ASSERT_EQ(Keep(whole, code + "!"), 0);
  EXPECT_EQ(Find(whole), "");
  Destroy(whole);
}

TEST(CompileCacheTest, NonsenseIsNoHit) {
  void* key = nullptr;
  uint32_t bytes = 0;
  void* data = nullptr;
  EXPECT_NE(Slot<MakeKey>(1)(nullptr, 1, "x", 1, "", "", "", 0, 0), 0);
  EXPECT_NE(Slot<MakeKey>(1)(&key, 1, nullptr, 1, "", "", "", 0, 0), 0);
  EXPECT_EQ(key, nullptr);
  auto* find = Slot<int(void*, int, void**, uint32_t*)>(3);
  EXPECT_NE(find(nullptr, 0, &data, &bytes), 0);
  key = Key("nonsense", "");
  EXPECT_NE(find(key, 0, nullptr, &bytes), 0);
  EXPECT_NE(find(key, 0, &data, nullptr), 0);
  EXPECT_NE(Keep(key, ""), 0);
  EXPECT_NE(Keep(nullptr, "code"), 0);
  Destroy(key);
  Destroy(nullptr);
}

CompileCacheSettings Read(const std::map<std::string, std::string>& variables) {
  return ReadCompileCacheSettings([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(CompileCacheTest, CudasVariablesDecide) {
  EXPECT_EQ(Read({}).path, "");
  EXPECT_EQ(Read({{"HOME", "/h"}}).path, "/h/.cache/warpline/compiled");
  EXPECT_EQ(Read({{"HOME", "/h"}}).max_bytes, 1ull << 30);
  EXPECT_EQ(Read({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).path, "/x/warpline/compiled");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_PATH", "/c"}}).path, "/c/warpline");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_DISABLE", "1"}}).path, "");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_DISABLE", "0"}}).path,
            "/h/.cache/warpline/compiled");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_MAXSIZE", "1000"}}).max_bytes, 1000u);
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_MAXSIZE", "0"}}).path, "");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"CUDA_CACHE_MAXSIZE", "a lot"}}).max_bytes, 1ull << 30);
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string folder = testing::TempDir() + "compiled-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  setenv("CUDA_CACHE_PATH", folder.c_str(), 1);
  unsetenv("CUDA_CACHE_DISABLE");
  unsetenv("CUDA_CACHE_MAXSIZE");
  const int status = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  return status;
}
