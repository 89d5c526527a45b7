// How sessions end: by their client, by their worker, by the server, and with nothing left behind.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;

using SessionEndTest = SessionFixture;

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

// Duplicates of this process's descriptors of files of so many bytes, by the files' numbers.
std::map<ino_t, UniqueFd> FilesOfSize(uint64_t bytes) {
  std::map<ino_t, UniqueFd> files;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* const entry = readdir(dir)) {
    const int fd = std::atoi(entry->d_name);
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) ||
        static_cast<uint64_t>(file.st_size) != bytes) {
      continue;
    }
    files[file.st_ino] = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  closedir(dir);
  return files;
}

TEST_F(SessionEndTest, NobodyGetsAChunkThatAnEndedSessionHad) {
  StartServer();
  // No chunks of this size are in stock, so these are the session's. Somebody keeps them.
  constexpr uint64_t kChunk = 64 * kMiB;
  auto first = DialAndOpen();
  ASSERT_EQ(first->RequestMemory(kArena, 3 * kChunk, 3 * kChunk)->bytes(), 3 * kChunk);
  const auto kept = FilesOfSize(kChunk);
  ASSERT_EQ(kept.size(), 3u);
  first.reset();
  ExpectNothingLeft();
  for (int i = 0; i < 3; ++i) {
    auto next = DialAndOpen();
    ASSERT_EQ(next->RequestMemory(kArena, 3 * kChunk, 3 * kChunk)->bytes(), 3 * kChunk);
    next->SendCommands(Body('w', 0x5ec7e7, kArena));
    next->Await(kReplies);
    for (const auto& [number, fd] : kept) {
      uint64_t word = 1;
      EXPECT_EQ(pread(fd.get(), &word, sizeof(word), 0), static_cast<ssize_t>(sizeof(word)));
      EXPECT_EQ(word, 0u);
    }
    EXPECT_EQ(FilesOfSize(kChunk).size(), 6u);
    next.reset();
    ExpectNothingLeft();
  }
}

TEST_F(SessionEndTest, DeadWorkerIsAFaultThatNamesTheSignal) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB);
  client->SendCommands(Body('e'));
  client->SendCommands(Body('k'));
  // What it wrote before it died still arrives.
  EXPECT_TRUE(client->Await(kReplies).has_value());
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(*payload));
  EXPECT_EQ(fault.error(), static_cast<int>(CudaResult::kLaunchFailed));
  EXPECT_EQ(fault.message(), "worker died: signal 9; commands were in flight");
  EXPECT_TRUE(fault.memory_kept());
  host_->Snapshot();
  EXPECT_EQ(host_->counters().worker_deaths.value(), 1u);
}

TEST_F(SessionEndTest, NeighbourOfADeadWorkerGoesOn) {
  StartServer();
  auto client = DialAndOpen();
  auto neighbour = DialAndOpen();
  client->SendCommands(Body('x'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  neighbour->SendCommands(Body('e'));
  EXPECT_TRUE(neighbour->Await(kReplies).has_value());
}

TEST_F(SessionEndTest, WorkerThatLeavesItsSocketIsLost) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('q'));
  EXPECT_TRUE(client->Await(kFault).has_value());
}

TEST_F(SessionEndTest, GarbageInTheRingEndsTheSession) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('g'));
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  EXPECT_THAT(*payload, HasSubstr("bad reply frame"));
}

TEST_F(SessionEndTest, WorkerThatCannotOpenTheDeviceRefusesTheSession) {
  options_.session.worker.args = {"--open_error=100"};
  StartServer();
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  const absl::Status closed = client->AwaitClosed();
  EXPECT_EQ(closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(closed.message()), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST_F(SessionEndTest, WorkerThatDiesWhileStartingRefusesTheSession) {
  options_.session.worker.args = {"--die_at_start"};
  StartServer();
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  EXPECT_THAT(std::string(client->AwaitClosed().message()), HasSubstr("exit code 5"));
}

TEST_F(SessionEndTest, CloseEndsWorkerAndMemory) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 64 * kMiB, 64 * kMiB);
  const int worker = host_->Snapshot().sessions.at(0).worker_pid;
  EXPECT_EQ(kill(worker, 0), 0);
  client->Send(kClose, "");
  EXPECT_TRUE(client->AwaitClosed().ok());
  ExpectNothingLeft();
  EXPECT_NE(kill(worker, 0), 0);
}

TEST_F(SessionEndTest, FullAndDrainingServersRefuse) {
  options_.max_sessions = 1;
  StartServer();
  auto client = DialAndOpen();
  const auto refusal = [&] {
    auto refused = Dial();
    EXPECT_FALSE(refused->Open().has_value());
    return refused->AwaitClosed().code();
  };
  EXPECT_EQ(refusal(), absl::StatusCode::kResourceExhausted);
  client.reset();
  ExpectNothingLeft();
  host_->StartDrain();
  EXPECT_EQ(refusal(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionEndTest, DrainThatTakesTooLongFaultsWhatRuns) {
  StartServer();
  auto client = DialAndOpen();
  host_->StartDrain();
  EXPECT_FALSE(host_->WaitUntilIdle(absl::Milliseconds(1)));
  host_->FaultAll("the server is shutting down");
  EXPECT_TRUE(client->Await(kFault).has_value());
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
}

TEST_F(SessionEndTest, DeadKeeperIsStartedAgainAndSessionsGoOn) {
  StartServer();
  auto client = DialAndOpen();
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  client->SendCommands(Body('w', 77, kArena));
  client->Await(kReplies);
  ASSERT_EQ(kill(memory_[0]->keeper_pid(), SIGKILL), 0);
  // Either it was noticed already, or this request is lost with the keeper.
  // No chunk of this size is in stock.
  uint64_t va = kArena + 64 * kMiB;
  while (client->RequestMemory(va, 20 * kMiB, 20 * kMiB)->bytes() == 0) va += 20 * kMiB;
  EXPECT_GE(memory_[0]->stats().keeper_restarts, 1u);
  client->SendCommands(Body('r', kArena));
  EXPECT_EQ((*client->Await(kReplies))[0], 77);
}

TEST_F(SessionEndTest, ClientsThatVanishAnywhereLeaveNothing) {
  StartServer();
  { auto warm_up = DialAndOpen(); }
  ExpectNothingLeft();
  const int before = OpenDescriptors();
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 5; ++i) clients.push_back(Dial());
    for (int i = 1; i < 5; ++i) clients[i]->SendMessage(kHello, TestClient::GoodHello());
    for (int i = 3; i < 5; ++i) {
      ASSERT_TRUE(clients[i]->Await(kWelcome).has_value());
      warpline_internal::MemoryRequest request;
      request.set_va(kArena);
      request.set_min_bytes(2 * kMiB);
      request.set_want_bytes(64 * kMiB);
      clients[i]->SendMessage(kMemoryRequest, request);
      clients[i]->SendCommands(Body(round % 2 == 0 ? 'e' : 's') + std::string(100000, 'x'));
    }
  }
  ExpectNothingLeft();
  // The channels' threads and the doorbell drop their hold on the rings a moment later.
  const int expected = before + static_cast<int>(memory_[0]->stats().pool.chunks);
  while (OpenDescriptors() > expected) std::this_thread::yield();
}

}  // namespace
}  // namespace warpline::server
