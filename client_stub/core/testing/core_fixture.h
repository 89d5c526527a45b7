// The driver API over a FakeSession, in this process: one cuInit for all tests of a binary.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/testing/fake_session.h"
#include "gtest/gtest.h"

namespace warpline::stub {

// Text that looks like PTX, for modules that are never compiled.
inline constexpr char kPtx[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

// Loads a kernel with two parameters: 8 bytes, and 4 bytes at offset 12. Its module belongs to the
// current context.
CUfunction LoadKernel();

// Makes cuInit open a fake session, whichever endpoint is named. Call before cuInit.
void UseFakeSession(uint32_t devices = 1);

// Each test begins with the primary context retained and current on its thread, an empty record of
// commands, and everything complete.
class CoreTest : public testing::Test {
 protected:
  static FakeSession& session();

  void SetUp() override;
  void TearDown() override;

  CUfunction LoadKernel() { return stub::LoadKernel(); }

  CUcontext context_ = nullptr;
};

// A CoreTest with three devices, of which the first two are peers. Each test begins with all
// primary contexts retained and the first one current.
class DevicesTest : public testing::Test {
 protected:
  static constexpr int kDevices = 3;

  static FakeSession& session();

  void SetUp() override;
  void TearDown() override;

  void Use(int device);
  static CUdeviceptr Allocate(size_t bytes);
  static CUstream NewStream(unsigned int flags = 0);
  static CUlibrary LoadLibrary();
  // Launches a CUfunction from LoadKernel(), or a CUkernel.
  static CUresult Launch(void* function, CUstream stream);

  CUcontext context_[kDevices] = {};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_CORE_FIXTURE_H_
