// Runs the real libcuda.so.1 on a core of its own (fake_core.c). Every case runs in its own
// process, since a process binds once.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

namespace fs = std::filesystem;

constexpr int kInvalidValue = 1;
constexpr int kNotSupported = 801;
constexpr int kSystemNotReady = 802;

class ShimTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shim_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    fs::copy_file("client_stub/shim/libcuda.so.1", dir_ / "libcuda.so.1");
  }
  void TearDown() override { fs::remove_all(dir_); }

  void InstallCore() { fs::copy_file("client_stub/shim/fake_core.so", Core()); }
  fs::path Core() const { return dir_ / "libwarpline_core.so"; }

  // Runs `body` in a child with libcuda.so.1 loaded from `library`; expects it to return true.
  // Returns what it wrote to stderr.
  std::string InChild(const fs::path& library, const std::function<bool(void*)>& body) {
    const fs::path log = dir_ / "stderr";
    const pid_t child = fork();
    if (child == 0) {
      if (freopen(log.c_str(), "w", stderr) == nullptr) _exit(2);
      void* shim = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (shim == nullptr) fprintf(stderr, "%s\n", dlerror());
      _exit(shim != nullptr && body(shim) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    EXPECT_EQ(status, 0) << text.str();
    return text.str();
  }
  std::string InChild(const std::function<bool(void*)>& body) {
    return InChild(dir_ / "libcuda.so.1", body);
  }

  fs::path dir_;
};

template <typename Function>
Function* Find(void* shim, const char* name) {
  return reinterpret_cast<Function*>(dlsym(shim, name));
}

int Call(void* shim, const char* name) { return Find<int()>(shim, name)(); }

int CountLines(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.find(part) != std::string::npos;
  }
  return count;
}

TEST_F(ShimTest, FirstCallBindsAndLaterCallsReachTheCore) {
  InstallCore();
  const std::string log =
      InChild([](void* shim) { return Call(shim, "cuInit") == 1 && Call(shim, "cuInit") == 1; });
  EXPECT_EQ(log, "");
}

TEST_F(ShimTest, ArgumentsOfEveryKindSurviveTheFirstCall) {
  InstallCore();
  InChild([](void* shim) {
    auto* weigh =
        Find<double(long, int, void*, long, long, long, double, double, double, float, double,
                    double, double, double, long, double, long)>(shim, "cuLaunchKernel");
    const auto call = [weigh] {
      return weigh(1, 20, reinterpret_cast<void*>(300), 4000, 50000, 600000, 1.5, 2.5, 3.5, 4.5f,
                   5.5, 6.5, 7.5, 8.5, 7000000, 9.5, 80000000);
    };
    const double expected = 1 + 2 * 20 + 3 * 300 + 4 * 4000 + 5 * 50000 + 6 * 600000 + 7 * 1.5 +
                            8 * 2.5 + 9 * 3.5 + 10 * 4.5 + 11 * 5.5 + 12 * 6.5 + 13 * 7.5 +
                            14 * 8.5 + 15 * 7000000.0 + 16 * 9.5 + 17 * 80000000.0;
    return call() == expected && call() == expected;
  });
}

TEST_F(ShimTest, UnsupportedEntryFailsAndIsNamedOnce) {
  InstallCore();
  const std::string log = InChild([](void* shim) {
    return Call(shim, "cuMemAlloc_v2") == kNotSupported &&
           Call(shim, "cuMemAlloc_v2") == kNotSupported &&
           Call(shim, "cuMemFree_v2") == kNotSupported;
  });
  EXPECT_EQ(CountLines(log, "cuMemAlloc_v2 is not supported"), 1) << log;
  EXPECT_EQ(CountLines(log, "cuMemFree_v2 is not supported"), 1) << log;
  EXPECT_THAT(log, testing::ContainsRegex(
                       "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z W stub cuMemAlloc_v2 is "
                       "not supported\n"));
}

TEST_F(ShimTest, TrampolinesAreTheExportedSymbols) {
  InstallCore();
  InChild([](void* shim) {
    return Find<void*()>(shim, "cuGetExportTable")() == dlsym(shim, "cuInit");
  });
}

TEST_F(ShimTest, EightThreadsBindOnce) {
  InstallCore();
  InChild([](void* shim) {
    std::atomic<int> waiting{0};
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (++waiting; waiting < 8;) std::this_thread::yield();
        right += Call(shim, "cuInit") == 1;
      });
    }
    for (std::thread& t : threads) t.join();
    return right == 8;
  });
}

TEST_F(ShimTest, ForkBeforeFirstUseBindsInBothProcesses) {
  InstallCore();
  InChild([](void* shim) {
    const pid_t child = fork();
    if (child == 0) _exit(Call(shim, "cuInit") == 1 ? 0 : 1);
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0 && Call(shim, "cuInit") == 1;
  });
}

TEST_F(ShimTest, CallFromInsideTheBindingIsRefusedInsteadOfHanging) {
  InstallCore();
  InChild([](void* shim) { return Call(shim, "cuDriverGetVersion") == kSystemNotReady; });
}

TEST_F(ShimTest, FindsTheCoreBesideTheFileBehindASymbolicLink) {
  InstallCore();
  const fs::path elsewhere = dir_ / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_symlink("../libcuda.so.1", elsewhere / "libcuda.so");
  InChild(elsewhere / "libcuda.so", [](void* shim) { return Call(shim, "cuInit") == 1; });
}

TEST_F(ShimTest, WithoutACoreEveryEntryIsNotReadyAndTheReasonIsLoggedOnce) {
  const std::string log = InChild([](void* shim) {
    const char* text = "untouched";
    auto* error_name = Find<int(int, const char**)>(shim, "cuGetErrorName");
    return Call(shim, "cuInit") == kSystemNotReady &&
           Call(shim, "cuMemAlloc_v2") == kSystemNotReady &&
           error_name(0, &text) == kInvalidValue && text == nullptr &&
           error_name(0, nullptr) == kInvalidValue;
  });
  EXPECT_EQ(CountLines(log, ""), 1) << log;
  EXPECT_EQ(CountLines(log, "libwarpline_core.so: cannot open shared object file"), 1) << log;
}

TEST_F(ShimTest, LibraryThatIsNoCoreCountsAsMissing) {
  fs::copy_file("client_stub/shim/libcuda.so.1", Core());
  const std::string log =
      InChild([](void* shim) { return Call(shim, "cuInit") == kSystemNotReady; });
  EXPECT_EQ(CountLines(log, "is not a core"), 1) << log;
}

}  // namespace
