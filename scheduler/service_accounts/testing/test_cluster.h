// A Kubernetes cluster as far as its tokens go: keys of its own, and tokens that say what a test
// wants them to say.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_TESTING_TEST_CLUSTER_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_TESTING_TEST_CLUSTER_H_

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline::scheduler {

// Thread-compatible. Keys are made anew in each process.
class TestKey {
 public:
  static TestKey Rsa(const std::string& id, int bits = 2048);
  // `curve` as OpenSSL calls it.
  static TestKey Ec(const std::string& id, const char* curve = "P-256");

  const std::string& id() const { return id_; }
  // As an entry of a JWKS, with the private part if `secret`.
  nlohmann::json Jwk(bool secret = false) const;
  std::string Pem() const;
  std::string PrivatePem() const;
  // As a JWS has it.
  std::string Sign(const std::string& text) const;

 private:
  TestKey(std::string id, EVP_PKEY* key) : id_(std::move(id)), key_(key, &EVP_PKEY_free) {}

  std::string id_;
  std::shared_ptr<EVP_PKEY> key_;
};

std::string Jwks(std::initializer_list<const TestKey*> keys);

// The claims of the token of ServiceAccount `name` in `name_space`, made at 1,800,000,000 seconds
// since 1970 for an hour.
inline constexpr int64_t kTestMade = 1800000000;
inline constexpr char kTestIssuer[] = "https://kubernetes.default.svc.cluster.local";
nlohmann::json TestClaims(const std::string& name_space = "team",
                          const std::string& name = "default");
nlohmann::json TestHeader(const TestKey& key);

// A token of these two, whatever they are, signed by `key`.
std::string TestToken(const TestKey& key, const std::string& header, const std::string& claims);
std::string TestToken(const TestKey& key, const nlohmann::json& claims = TestClaims());

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_TESTING_TEST_CLUSTER_H_
