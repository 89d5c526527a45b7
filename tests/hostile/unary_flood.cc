// Calls a unary method again and again, many at once, with a request of one part repeated. Prints
// how many calls got which status.
#include <atomic>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "transport/grpc/unary/unary_connection.h"

ABSL_FLAG(std::string, endpoint, "", "whom to call");
ABSL_FLAG(std::string, method, "", "/package.Service/Method");
ABSL_FLAG(std::string, part, "", "what the request repeats, in hexadecimal digits");
ABSL_FLAG(size_t, bytes, 1'000'000, "the size of a request");
ABSL_FLAG(int, at_once, 16, "how many calls are under way at a time");
ABSL_FLAG(int, calls, 1000, "how many calls are made in all");

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const std::string part = absl::HexStringToBytes(absl::GetFlag(FLAGS_part));
  std::string request;
  while (!part.empty() && request.size() < absl::GetFlag(FLAGS_bytes)) request += part;
  std::atomic<int> left{absl::GetFlag(FLAGS_calls)};
  warpline::Mutex mu;
  std::map<std::string, int> answers;
  std::vector<std::thread> threads;
  for (int i = 0; i < absl::GetFlag(FLAGS_at_once); ++i) {
    threads.emplace_back([&] {
      warpline::UnaryConnection connection({.address = absl::GetFlag(FLAGS_endpoint)});
      while (left.fetch_sub(1) > 0) {
        const absl::Status status =
            connection.Call(absl::GetFlag(FLAGS_method), request, absl::Seconds(60)).status();
        warpline::MutexLock lock(&mu);
        ++answers[absl::StatusCodeToString(status.code())];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [status, count] : answers) std::cout << status << "=" << count << " ";
  std::cout << std::endl;
}
