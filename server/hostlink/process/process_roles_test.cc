#include "server/hostlink/process/process_roles.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ProcessRolesTest, EachRoleHasItsRow) {
  std::set<std::string> programs;
  for (size_t i = 0; i < kProcessRoles; ++i) {
    const auto role = static_cast<ProcessRole>(i);
    EXPECT_EQ(SpecOf(role).role, role);
    EXPECT_EQ(RoleNamed(SpecOf(role).name), role);
    programs.insert(SpecOf(role).program);
  }
  EXPECT_EQ(programs.size(), kProcessRoles);
  EXPECT_FALSE(RoleNamed("").has_value());
  EXPECT_FALSE(RoleNamed("init").has_value());
}

TEST(ProcessRolesTest, OnlyTheSupervisorStartsWhatTouchesDevices) {
  EXPECT_EQ(SpecOf(ProcessRole::kWorker).started_by, ProcessRole::kSupervisor);
  EXPECT_EQ(SpecOf(ProcessRole::kKeeper).started_by, ProcessRole::kSupervisor);
  EXPECT_EQ(SpecOf(ProcessRole::kSupervisor).started_by, ProcessRole::kServer);
}

}  // namespace
}  // namespace warpline
