#include "common/serving/tls_files.h"

#include <cstdlib>

namespace warpline {
namespace {

// Nothing in a program with more rights than its user, who would choose whom it trusts.
std::string Variable(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

TlsFiles TlsFilesFromEnvironment() {
  return {.ca = Variable(kTlsCaVariable),
          .cert = Variable(kTlsCertVariable),
          .key = Variable(kTlsKeyVariable),
          .server_name = Variable(kTlsServerNameVariable)};
}

bool WantsTls(const TlsFiles& files, const std::string& endpoint) {
  if (endpoint.rfind("unix:", 0) == 0) return !files.server_name.empty();
  return !files.empty();
}

}  // namespace warpline
