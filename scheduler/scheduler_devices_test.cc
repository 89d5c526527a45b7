// Leases and sessions of several devices.
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "lease/token.h"
#include "scheduler/scheduler_fixture.h"

namespace warpline::scheduler {
namespace {

using Code = absl::StatusCode;

TEST_P(SchedulerTest, LeaseOfSeveralDevicesHoldsMemoryOfEach) {
  ServerReport report = Report("a");
  for (const char* uuid : {"GPU-a2", "GPU-a3"}) {
    *report.add_devices() = report.devices(0);
    report.mutable_devices(report.devices_size() - 1)->set_uuid(uuid);
  }
  const ReportReply keys = Tell(report);
  Tell(Report("b"));
  AcquireRequest request;
  request.set_memory_bytes(10 * kGiB);
  request.set_devices(2);
  const auto lease = scheduler_->Acquire(request, false, true);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->device(), "GPU-a,GPU-a2");
  EXPECT_EQ(lease->memory_bytes(), 10 * kGiB);
  const auto token = OpenToken(lease->token(), {{keys.keys(0).id(), keys.keys(0).key()}});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->devices, std::vector<std::string>({"GPU-a", "GPU-a2"}));
  EXPECT_EQ(scheduler_->Leases("operator")->leases(0).device(), "GPU-a,GPU-a2");
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).leased_bytes(), 20 * kGiB);
  EXPECT_EQ(scheduler_->Tenants("operator")->tenants(0).leased_bytes(), 20 * kGiB);
  EXPECT_EQ(scheduler_->Counts().leased_bytes, 20 * kGiB);
  // One device of "a" has as much left.
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kResourceExhausted);
  request.set_device("GPU-a3,GPU-a2");
  request.set_memory_bytes(6 * kGiB);
  EXPECT_EQ(scheduler_->Acquire(request, false, true)->device(), "GPU-a3,GPU-a2");
  request.set_devices(3);
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kInvalidArgument);
  request.clear_device();
  request.set_devices(17);
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kInvalidArgument);
  request.clear_devices();
  request.set_device("GPU-a,GPU-a");
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kInvalidArgument);
  Restart();
  std::set<std::string> devices;  // Leases come in the order of their random names.
  const auto leases = scheduler_->Leases("operator");
  for (const auto& held : leases->leases()) devices.insert(held.device());
  EXPECT_EQ(devices, (std::set<std::string>{"GPU-a,GPU-a2", "GPU-a3,GPU-a2"}));
}

TEST_P(SchedulerTest, ADeviceMayBeNamedByTheBeginningOfItsUuid) {
  ServerReport report = Report("ab1");
  *report.add_devices() = report.devices(0);
  report.mutable_devices(1)->set_uuid("GPU-ac2");
  Tell(report);
  Tell(Report("b"));
  AcquireRequest request;
  request.set_memory_bytes(kGiB);
  const auto ask = [&](const std::string& device) {
    request.set_device(device);
    return scheduler_->Acquire(request, false, true);
  };
  EXPECT_EQ(ask("GPU-ac")->device(), "GPU-ac2");
  EXPECT_EQ(ask("GPU-AC,MIG-ab")->device(), "GPU-ac2,GPU-ab1");
  EXPECT_EQ(ask("GPU-a").status().code(), Code::kNotFound);
  EXPECT_EQ(ask("GPU-x").status().code(), Code::kNotFound);
  EXPECT_EQ(ask("GPU-ab,GPU-ab1").status().code(), Code::kInvalidArgument);
}

TEST_P(SchedulerTest, TenantsMemoryCountsEveryDeviceOfALease) {
  AddServer("a");
  ServerReport report = Report("a");
  *report.add_devices() = report.devices(0);
  report.mutable_devices(1)->set_uuid("GPU-a2");
  const std::string credential = AddTenant("t", 12, 0, 0);
  Tell(report);
  AcquireRequest request;
  request.set_credential(credential);
  request.set_devices(2);
  request.set_memory_bytes(7 * kGiB);
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kResourceExhausted);
  request.set_memory_bytes(6 * kGiB);
  EXPECT_TRUE(scheduler_->Acquire(request, false, true).ok());
}

TEST_P(SchedulerTest, DevicesThatCannotBeToldApartAreRefused) {
  ServerReport report = Report("a");
  *report.add_devices() = report.devices(0);
  EXPECT_EQ(scheduler_->Report(report, true).status().code(), Code::kInvalidArgument);
  report.mutable_devices(1)->set_uuid("GPU-b,GPU-c");
  EXPECT_EQ(scheduler_->Report(report, true).status().code(), Code::kInvalidArgument);
}

TEST_P(SchedulerTest, SessionOfSeveralDevicesCountsOnEach) {
  ServerReport report = Report("a");
  *report.add_devices() = report.devices(0);
  report.mutable_devices(1)->set_uuid("GPU-a2");
  auto* const session = report.add_sessions();
  session->set_gpu(1);
  session->add_more_gpus(0);
  Tell(report);
  const auto stat = StatOf("operator", "");
  EXPECT_EQ(stat->devices(0).sessions(), 1u);
  EXPECT_EQ(stat->devices(1).sessions(), 1u);
}

INSTANTIATE_TEST_SUITE_P(States, SchedulerTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
