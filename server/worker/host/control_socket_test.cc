// Tests what a worker makes of messages that it cannot take as they were sent.
#include "server/worker/host/control_socket.h"

#include <sys/resource.h>
#include <unistd.h>

#include <thread>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::FromWorker;
using ::warpline_internal::ToWorker;

TEST(ControlSocketTest, AMessageThatLostItsDescriptorsConcernsItsSessionAlone) {
  auto sockets = *PacketSocketPair();
  ToWorker open;
  open.set_session(7);
  open.mutable_open()->set_session(7);
  open.mutable_open()->set_backend("cpu");
  open.mutable_open()->set_arena_base(0x300000000000);
  open.mutable_open()->set_arena_bytes(uint64_t{4} << 30);
  ToWorker map;
  map.set_session(8);
  map.mutable_map()->set_id(1);
  const int fd = sockets.first.get();
  ASSERT_TRUE(SendPacket(fd, open, {fd, fd, fd}).ok());
  ASSERT_TRUE(SendPacket(fd, map, {fd}).ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(UniqueFd(dup(fd)).get()), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  HostProcess::Options options;
  options.control_fd = sockets.second.get();
  auto* const process = new HostProcess(std::move(options));
  std::thread serves([&] { ServeControlSocket(sockets.second.get(), process); });
  FromWorker answer;
  ASSERT_TRUE(ReceivePacket(fd, &answer, nullptr).ok());
  EXPECT_EQ(answer.session(), 7u);
  EXPECT_NE(answer.opened().error(), 0);
  ASSERT_TRUE(ReceivePacket(fd, &answer, nullptr).ok()) << "it serves the others";
  EXPECT_EQ(answer.session(), 8u);
  EXPECT_EQ(answer.memory_done().error(), static_cast<int>(CudaResult::kIllegalState));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  sockets.first.Reset(-1);
  serves.join();
}

}  // namespace
}  // namespace warpline::worker
