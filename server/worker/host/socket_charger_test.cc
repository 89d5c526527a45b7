#include "server/worker/host/socket_charger.h"

#include <thread>

#include "common/packets/packet_socket.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

TEST(SocketChargerTest, GivesTheServersAnswer) {
  auto pair = PacketSocketPair();
  ASSERT_TRUE(pair.ok());
  SocketCharger charger(pair->first.get(), 7);
  // This thread plays both the server and the worker's thread that receives.
  std::thread server([&] {
    for (int i = 0; i < 2; ++i) {
      warpline_internal::FromWorker asked;
      ASSERT_TRUE(ReceivePacket(pair->second.get(), &asked, nullptr).ok());
      warpline_internal::MemoryCharged answer;
      EXPECT_EQ(asked.charge().device(), 1u);
      answer.set_id(asked.charge().id());
      const bool enough = asked.charge().bytes() <= 4096;
      answer.set_error(static_cast<int>(enough ? CudaResult::kSuccess : CudaResult::kOutOfMemory));
      charger.OnCharged(answer);
    }
  });
  EXPECT_EQ(charger.Charge(1, 4096), CudaResult::kSuccess);
  EXPECT_EQ(charger.Charge(1, 8192), CudaResult::kOutOfMemory);
  server.join();
  charger.Uncharge(1, 4096);
  warpline_internal::FromWorker returned;
  ASSERT_TRUE(ReceivePacket(pair->second.get(), &returned, nullptr).ok());
  EXPECT_EQ(returned.uncharge().bytes(), 4096u);
  EXPECT_EQ(returned.uncharge().device(), 1u);
}

TEST(SocketChargerTest, ThereIsNoMemoryWithoutAServer) {
  auto pair = PacketSocketPair();
  ASSERT_TRUE(pair.ok());
  SocketCharger charger(pair->first.get(), 7);
  pair->second = UniqueFd();
  EXPECT_EQ(charger.Charge(1, 4096), CudaResult::kOutOfMemory);
}

}  // namespace
}  // namespace warpline::worker
