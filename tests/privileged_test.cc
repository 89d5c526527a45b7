// A program with more rights than its user takes no variable of the user's: the variables choose
// which files are read and written, and who gets their content.
//
// The test makes a copy of itself that becomes another user when it is executed (setuid), and has
// both print what they read from the same environment.
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "client_stub/core/base/environment.h"
#include "common/lease/lease_key.h"
#include "common/serving/tls_files.h"
#include "gtest/gtest.h"

// A leak checker stops its process to look at it, which it may not do with a privileged one.
extern "C" int __lsan_is_turned_off();  // NOLINT(bugprone-reserved-identifier)
extern "C" int __lsan_is_turned_off() { return 1; }

namespace warpline {
namespace {

constexpr char kPrint[] = "--print";
constexpr uid_t kOther = 12345;
constexpr const char* kVariables[] = {"WARPLINE_ENDPOINT",    "WARPLINE_TOKEN_FILE",
                                      "WARPLINE_CREDENTIAL",  "WARPLINE_CREDENTIAL_FILE",
                                      "WARPLINE_STAT",        kTlsCaVariable,
                                      kTlsCertVariable,       kTlsKeyVariable,
                                      kTlsServerNameVariable, kLeaseKeyVariable};

// What the variables say here, each in square brackets.
void Print() {
  const stub::Environment read = stub::ReadEnvironment();
  const TlsFiles tls = TlsFilesFromEnvironment();
  printf("secure=%lu ", getauxval(AT_SECURE));
  for (const std::string& text :
       {read.endpoint, read.lease_key, read.token_file, read.credential, read.credential_file,
        read.stat, tls.ca, tls.cert, tls.key, tls.server_name, read.visible.device}) {
    printf("[%s]", text.c_str());
  }
}

std::string Printed(const std::string& program) {
  FILE* const pipe = popen((program + " " + kPrint).c_str(), "r");
  if (pipe == nullptr) return "";
  char text[4096];
  const size_t size = fread(text, 1, sizeof(text), pipe);
  return pclose(pipe) == 0 ? std::string(text, size) : "";
}

TEST(PrivilegedTest, AProgramWithMoreRightsThanItsUserReadsNoVariable) {
  for (const char* const variable : kVariables) setenv(variable, "chosen", 1);
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  char folder[] = "/tmp/warpline_privileged_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ASSERT_EQ(chmod(folder, 0755), 0);
  const std::string copy = std::string(folder) + "/program";
  std::error_code error;
  std::filesystem::copy_file("/proc/self/exe", copy, error);
  ASSERT_FALSE(error) << error.message();
  ASSERT_EQ(chmod(copy.c_str(), 0755), 0);
  const std::string plain = Printed(copy);
  const bool other = chown(copy.c_str(), kOther, static_cast<gid_t>(-1)) == 0 &&
                     chmod(copy.c_str(), S_ISUID | 0755) == 0;
  const std::string privileged = other ? Printed(copy) : "";
  std::filesystem::remove_all(folder, error);
  EXPECT_EQ(
      plain,
      "secure=0 [chosen][chosen][chosen][chosen][chosen][chosen][chosen][chosen][chosen][chosen]"
      "[1]");
  if (!other) GTEST_SKIP() << "only root can give a program to another user";
  if (privileged.find("secure=0") == 0) GTEST_SKIP() << "/tmp gives no program another user";
  EXPECT_EQ(privileged, "secure=1 [][][][][][][][][][][]");
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == warpline::kPrint) {
    warpline::Print();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
