#include "server/worker/host/server_module_record.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <string>

#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"

namespace warpline::worker {
namespace {

TEST(ServerModuleRecordTest, EachImageIsSaidOnce) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd server(ends[0]);
  const UniqueFd worker(ends[1]);
  ASSERT_EQ(fcntl(server.get(), F_SETFL, O_NONBLOCK), 0);
  ServerModuleRecord record(worker.get(), 7);
  for (const char* const image : {"first", "second", "first"}) {
    ContentHash hash;
    ASSERT_TRUE(HashContent(image, &hash));
    record.OnLoaded(hash, std::string(image).size());
  }
  for (const char* const image : {"first", "second"}) {
    warpline_internal::FromWorker message;
    ASSERT_TRUE(ReceivePacket(server.get(), &message, nullptr).ok());
    ContentHash hash;
    ASSERT_TRUE(HashContent(image, &hash));
    EXPECT_EQ(message.session(), 7u);
    EXPECT_EQ(message.module_loaded().sha256(), std::string(hash.begin(), hash.end()));
    EXPECT_EQ(message.module_loaded().bytes(), std::string(image).size());
  }
  warpline_internal::FromWorker more;
  EXPECT_FALSE(ReceivePacket(server.get(), &more, nullptr).ok());
}

}  // namespace
}  // namespace warpline::worker
