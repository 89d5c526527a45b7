// A server of sessions over the in-process transport, with real processes for worker and keeper,
// for tests: see fake_worker.cc for what the worker does.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_SESSION_FIXTURE_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_SESSION_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/test_client.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline::server {

// The test has fake_worker and fake_keeper as data. Each device has 256 MiB, each session 192 MiB,
// and 8 memory requests may be under way. After each test nothing may be left of any session.
class SessionFixture : public testing::Test {
 protected:
  static constexpr uint64_t kMiB = 1ull << 20;
  static constexpr uint64_t kArena = TestClient::kArena;

  SessionFixture();

  // Called once.
  void StartServer(int devices = 1);
  // Null, with the reason in `*refusal`, when the server does not take the session.
  std::unique_ptr<TestClient> Dial(absl::Status* refusal = nullptr);
  // With the hello said and the welcome received.
  std::unique_ptr<TestClient> DialAndOpen();
  void ExpectNothingLeft();
  void TearDown() override;

  // A command for the fake worker.
  static std::string Body(char what, uint64_t a = 0, uint64_t b = 0);

  // For StartServer(), which takes these away.
  SessionHostOptions options_;
  LeaseBookOptions lease_options_;
  std::unique_ptr<LeaseBook> leases_;
  std::vector<DeviceMemory*> memory_;
  std::unique_ptr<SessionHost> host_;
  std::unique_ptr<InprocServer> server_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_SESSION_FIXTURE_H_
