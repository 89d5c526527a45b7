// The driver API over a FakeSession, in this process: one cuInit for all tests of a binary.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_

#include "client_stub/core/cuda_api.h"
#include "client_stub/core/testing/fake_session.h"
#include "gtest/gtest.h"

namespace warpline::stub {

// PTX that looks like it, for modules that no one compiles.
inline constexpr char kPtx[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

// Opens a fake session, whichever endpoint is named. Call before cuInit.
void UseFakeSession();

// Each test begins with the primary context retained and current on its thread, an empty record of
// commands, and everything complete.
class CoreTest : public testing::Test {
 protected:
  static FakeSession& session();

  void SetUp() override;
  void TearDown() override;

  // A kernel with two parameters: 8 bytes, and 4 bytes at 12.
  CUfunction LoadKernel();

  CUcontext context_ = nullptr;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_
