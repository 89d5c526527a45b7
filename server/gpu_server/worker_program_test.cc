#include "server/gpu_server/worker_program.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(WorkerProgramTest, AWorkerOfOneSessionLoadsKernelsWhenTheyAreUsed) {
  const ChildOptions program = WorkerProgram("/worker", "cuda", 8);
  EXPECT_EQ(program.path, "/worker");
  EXPECT_THAT(program.environment, Contains(Pair("CUDA_MODULE_LOADING", "LAZY")));
  EXPECT_THAT(program.environment, Contains(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "8")));
}

TEST(WorkerProgramTest, ASharedWorkerHasAllQueuesAndFindsLibraries) {
  const ChildOptions program = SharedWorkerProgram("/worker", "cuda", "/a:/b");
  EXPECT_THAT(program.environment, Contains(Pair("CUDA_MODULE_LOADING", "LAZY")));
  EXPECT_THAT(program.environment, Contains(Pair("WARPLINE_CUDA_LIBRARIES", "/a:/b")));
  EXPECT_THAT(program.environment, Contains(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "32")));
  EXPECT_THAT(program.environment, Contains(Pair("CUDA_CACHE_DISABLE", "1")));
}

TEST(WorkerProgramTest, OtherDevicesNeedNoSettings) {
  EXPECT_THAT(SharedWorkerProgram("/worker", "cpu", "/a").environment, IsEmpty());
}

}  // namespace
}  // namespace warpline::server
