#include "server/gpu_server/admin/device_status.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/leases/placement.h"

namespace warpline::server {
namespace {

using warpline_internal::DeviceStatusReply;
using warpline_internal::DeviceStatusRequest;

constexpr uint64_t kGiB = 1ull << 30;

SessionSnapshot MakeSession(uint32_t pid, const std::string& lease, uint64_t bytes) {
  SessionSnapshot session;
  session.client.program = "program" + std::to_string(pid);
  session.client.pid = pid;
  session.client.boot_id = "boot";
  session.client.peer = "ipv4:127.0.0.1:5555";
  session.client.pid_namespace = 5;
  session.devices = {{1, 4 * kGiB, bytes, bytes}};
  session.entitlement.lease = lease;
  return session;
}

// An NVML of three devices, whose handles are their numbers, that knows only what lies between
// them.
int Init() { return 0; }
int ByBusId(const char* id, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(id[3] - '0'));
  return 0;
}
int CommonAncestor(void* one, void* other, uint32_t* level) {
  *level = static_cast<uint32_t>(10 * reinterpret_cast<uintptr_t>(one) +
                                 reinterpret_cast<uintptr_t>(other));
  return 0;
}
void* FindNvml(const char* name) {
  const std::string wanted = name;
  if (wanted == "nvmlInit_v2") return reinterpret_cast<void*>(&Init);
  if (wanted == "nvmlDeviceGetHandleByPciBusId_v2") return reinterpret_cast<void*>(&ByBusId);
  if (wanted == "nvmlDeviceGetTopologyCommonAncestor") {
    return reinterpret_cast<void*>(&CommonAncestor);
  }
  return nullptr;
}

class DeviceStatusTest : public testing::Test {
 protected:
  void SetUp() override {
    LeaseBookOptions options;
    options.server_name = "here";
    options.session_memory_bytes = 8 * kGiB;
    options.clock = [] { return absl::Now(); };
    leases_ = *LeaseBook::Create(options);
    for (int i = 0; i < 2; ++i) {
      DeviceSnapshot device;
      device.ordinal = i;
      device.memory.capacity_bytes = 16 * kGiB;
      device.info.set_name("device" + std::to_string(i));
      device.info.set_uuid(std::string(16, static_cast<char>('a' + i)));
      snapshot_.devices.push_back(device);
    }
  }

  absl::StatusOr<DeviceStatusReply> Ask(const DeviceStatusRequest& request) {
    const auto bytes =
        AnswerDeviceStatus(snapshot_, *leases_, sampler_, peer_, request.SerializeAsString());
    if (!bytes.ok()) return bytes.status();
    DeviceStatusReply reply;
    EXPECT_TRUE(reply.ParseFromString(*bytes));
    return reply;
  }

  std::string peer_ = "ipv4:127.0.0.1:7777";

  static DeviceStatusRequest Process(uint32_t pid) {
    DeviceStatusRequest request;
    request.set_pid(pid);
    request.set_boot_id("boot");
    request.set_pid_namespace(5);
    return request;
  }

  std::unique_ptr<LeaseBook> leases_;
  HostSnapshot snapshot_;
  nvml::Sampler* sampler_ = nullptr;
};

TEST_F(DeviceStatusTest, AProcessSeesItsOwnSessionsOnly) {
  snapshot_.sessions = {MakeSession(10, "", kGiB), MakeSession(11, "", 2 * kGiB),
                        MakeSession(10, "other", 3 * kGiB)};
  const auto reply = Ask(Process(10));
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->devices_size(), 1);
  const auto& device = reply->devices(0);
  EXPECT_EQ(device.info().name(), "device1");
  EXPECT_EQ(device.quota_bytes(), 4 * kGiB);
  EXPECT_EQ(device.used_bytes(), kGiB);
  ASSERT_EQ(device.processes_size(), 1);
  EXPECT_EQ(device.processes(0).program(), "program10");
  // Who knows the process's numbers and is elsewhere is not the process.
  peer_ = "ipv4:10.0.0.7:1";
  EXPECT_EQ(Ask(Process(10))->devices(0).processes_size(), 0);
  peer_ = "ipv4:127.0.0.1:1 cn=mallory cert=00ff";
  EXPECT_EQ(Ask(Process(10))->devices(0).processes_size(), 0);
  peer_ = "unix:";
  EXPECT_EQ(Ask(Process(10))->devices(0).processes_size(), 1);
  auto elsewhere = Process(10);
  elsewhere.set_pid_namespace(6);
  EXPECT_EQ(Ask(elsewhere)->devices(0).processes_size(), 0);
}

TEST_F(DeviceStatusTest, ALeaseSeesAllOfItsSessionsAndTheirSharedQuota) {
  DeviceStatusRequest request;
  const auto lease = leases_->OpenLocal(6 * kGiB, {}, 0, request.mutable_token());
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(Ask(request)->devices(0).quota_bytes(), 6 * kGiB);
  snapshot_.sessions = {MakeSession(10, lease->lease, kGiB), MakeSession(11, lease->lease, kGiB),
                        MakeSession(12, "", kGiB)};
  const auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->devices(0).used_bytes(), kGiB);
  EXPECT_EQ(reply->devices(0).processes_size(), 2);
}

TEST_F(DeviceStatusTest, BeforeASessionItIsTheDeviceThatOneWouldGet) {
  snapshot_.devices[0].sessions = 3;
  EXPECT_EQ(Ask(Process(10))->devices(0).info().name(), "device1");
  EXPECT_EQ(Ask(Process(10))->devices(0).quota_bytes(), 8 * kGiB);
  auto named = Process(10);
  named.set_device("0");
  EXPECT_EQ(Ask(named)->devices(0).info().name(), "device0");
  named.set_device("7");
  EXPECT_EQ(Ask(named).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DeviceStatusTest, AllDevicesOfALeaseAreShownWithWhatIsHeldOfEach) {
  DeviceStatusRequest request;
  // The lease's order is not the server's.
  const DeviceNames devices = {FormatDeviceUuid(std::string(16, 'b')),
                               FormatDeviceUuid(std::string(16, 'a'))};
  const auto lease = leases_->OpenLocal(6 * kGiB, devices, 0, request.mutable_token());
  ASSERT_TRUE(lease.ok());
  SessionSnapshot both = MakeSession(10, lease->lease, kGiB);
  both.devices = {{1, 6 * kGiB, 3 * kGiB, kGiB}, {0, 5 * kGiB, 2 * kGiB, 2 * kGiB}};
  SessionSnapshot one = MakeSession(11, lease->lease, kGiB);
  one.devices = {{1, 6 * kGiB, 3 * kGiB, 2 * kGiB}};
  snapshot_.sessions = {both, one};
  const auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->devices_size(), 2);
  EXPECT_EQ(reply->devices(0).info().name(), "device1");
  EXPECT_EQ(reply->devices(0).used_bytes(), 3 * kGiB);
  EXPECT_EQ(reply->devices(0).processes_size(), 2);
  EXPECT_EQ(reply->devices(1).info().name(), "device0");
  EXPECT_EQ(reply->devices(1).quota_bytes(), 5 * kGiB);
  EXPECT_EQ(reply->devices(1).used_bytes(), 2 * kGiB);
  ASSERT_EQ(reply->devices(1).processes_size(), 1);
  EXPECT_EQ(reply->devices(1).processes(0).memory_bytes(), 2 * kGiB);
}

TEST_F(DeviceStatusTest, AProcessWithoutALeaseSeesTheDevicesOfItsSessions) {
  SessionSnapshot session = MakeSession(10, "", kGiB);
  session.devices.push_back({0, 4 * kGiB, 0, 0});
  snapshot_.sessions = {session};
  const auto reply = Ask(Process(10));
  ASSERT_EQ(reply->devices_size(), 2);
  EXPECT_EQ(reply->devices(0).info().name(), "device1");
  snapshot_.sessions.clear();
  auto named = Process(10);
  named.set_device("1,0");
  EXPECT_EQ(Ask(named)->devices_size(), 2);
}

TEST_F(DeviceStatusTest, DevicesAreToldOfTheirNeighboursInTheReplyAlone) {
  for (int i = 0; i < 3; ++i) {
    if (i == 2) snapshot_.devices.push_back(snapshot_.devices[1]);
    snapshot_.devices[i].info.set_pci_bus_id("bus" + std::to_string(i));
  }
  nvml::SamplerOptions options;
  options.pci_bus_ids = {"bus0", "bus1", "bus2"};
  options.load = [] { return nvml::Library::Start(&FindNvml); };
  options.patience = absl::Seconds(30);
  nvml::Sampler sampler(options);
  sampler_ = &sampler;
  auto named = Process(10);
  named.set_device("1,0");
  const auto reply = Ask(named);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->devices(0).numbers().at("peer_1_topology"), 10u);
  EXPECT_EQ(reply->devices(1).numbers().at("peer_0_topology"), 1u);
  EXPECT_EQ(reply->devices(0).numbers().count("peer_2_topology"), 0u);
  EXPECT_EQ(reply->devices(0).numbers().count("peer_0_topology"), 0u);
}

TEST_F(DeviceStatusTest, TokensThatDoNotHoldAreRefused) {
  DeviceStatusRequest request;
  request.set_token("nonsense");
  EXPECT_EQ(Ask(request).status().code(), absl::StatusCode::kUnauthenticated);
  std::string token;
  const auto lease = leases_->OpenLocal(0, {}, 0, &token);
  ASSERT_TRUE(leases_->CloseLocal(token).ok());
  request.set_token(token);
  EXPECT_EQ(Ask(request).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(AnswerDeviceStatus(snapshot_, *leases_, nullptr, peer_, std::string(100000, 'x'))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceStatusTest, ServersOfASchedulerWantAToken) {
  LeaseBookOptions options;
  options.required = true;
  options.clock = [] { return absl::Now(); };
  leases_ = *LeaseBook::Create(options);
  EXPECT_FALSE(Ask(Process(10)).ok());
}

}  // namespace
}  // namespace warpline::server
