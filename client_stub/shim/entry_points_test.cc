#include "client_stub/shim/entry_points.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kPlain = CU_GET_PROC_ADDRESS_DEFAULT;
constexpr uint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr uint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

std::string Resolve(std::string_view name, int version, uint64_t flags) {
  const char* symbol = ResolveSymbol(name, version, flags, nullptr);
  return symbol == nullptr ? "" : symbol;
}

TEST(ResolveSymbolTest, AgreesWithEveryRequestOfTheRuntimeLibrary) {
  std::ifstream csv("client_stub/shim/testdata/cudart-entry-points.csv");
  std::string line;
  ASSERT_TRUE(std::getline(csv, line));
  ASSERT_EQ(line, "name,cuda_version,flags,symbol");
  int requests = 0;
  while (std::getline(csv, line)) {
    std::vector<std::string> field(4);
    std::istringstream fields(line);
    for (std::string& f : field) std::getline(fields, f, ',');
    const std::string got = Resolve(field[0], std::stoi(field[1]), std::stoull(field[2]));
    // For the GL, EGL, VDPAU and profiler names only the request was recorded, not the answer.
    if (field[3].empty()) {
      EXPECT_NE(got, "") << line;
    } else {
      EXPECT_EQ(got, field[3]) << line;
    }
    ++requests;
  }
  EXPECT_EQ(requests, 439);
}

TEST(ResolveSymbolTest, NewestAbiThatTheVersionHas) {
  EXPECT_EQ(Resolve("cuStreamGetCaptureInfo", 11020, kPlain), "cuStreamGetCaptureInfo");
  EXPECT_EQ(Resolve("cuStreamGetCaptureInfo", 11030, kPlain), "cuStreamGetCaptureInfo_v2");
  EXPECT_EQ(Resolve("cuStreamGetCaptureInfo", 99999, kPlain), "cuStreamGetCaptureInfo_v3");
  EXPECT_EQ(Resolve("cuGetProcAddress", 12000, kPlain), "cuGetProcAddress_v2");
  EXPECT_EQ(Resolve("cuGetExportTable", 13000, kPlain), "cuGetExportTable");
}

TEST(ResolveSymbolTest, PerThreadVariantOnlyWhereAskedForAndPresent) {
  EXPECT_EQ(Resolve("cuMemcpyHtoD", 13000, kPlain), "cuMemcpyHtoD_v2");
  EXPECT_EQ(Resolve("cuMemcpyHtoD", 13000, kLegacy), "cuMemcpyHtoD_v2");
  EXPECT_EQ(Resolve("cuMemcpyHtoD", 13000, kPerThread), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(Resolve("cuLaunchKernel", 13000, kPerThread), "cuLaunchKernel_ptsz");
  EXPECT_EQ(Resolve("cuLaunchKernel", 4000, kPerThread), "cuLaunchKernel");
  EXPECT_EQ(Resolve("cuMemAlloc", 13000, kPerThread), "cuMemAlloc_v2");
}

TEST(ResolveSymbolTest, SaysWhyNothingWasFound) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(ResolveSymbol("cuNoSuchThing", 13000, kPlain, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ResolveSymbol("", 0, kPlain, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ResolveSymbol("cuLibraryLoadData", 11080, kPlain, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(ResolveSymbol("cuInit", 13000, kPlain, &status), std::string("cuInit"));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(ResolveSymbolTest, RefusesUnknownFlagsAndVersionedNames) {
  EXPECT_EQ(Resolve("cuLaunchKernel", 13000, kLegacy | kPerThread), "cuLaunchKernel_ptsz");
  EXPECT_EQ(Resolve("cuMemAlloc_v2", 13000, kPlain), "");
}

}  // namespace
}  // namespace warpline
