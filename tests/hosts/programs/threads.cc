// C++ threads, locks and exceptions beside CUDA, for the sanitizers.
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "workload.h"

int main() {
  std::mutex mu;
  std::vector<std::string> results;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const int result = RunWorkload(5);
      try {
        throw std::runtime_error(std::to_string(result));
      } catch (const std::exception& error) {
        const std::lock_guard<std::mutex> lock(mu);
        results.push_back(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) {
    if (result != "0") return 1;
  }
  std::puts("host: ok");
  return 0;
}
