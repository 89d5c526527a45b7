#include "examples/model_server/tenants.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace model_server {
namespace {

constexpr size_t kShortestKey = 16;

std::string Hash(absl::string_view key) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace

absl::StatusOr<std::vector<Tenant>> ReadTenants(const std::string& folder) {
  std::vector<Tenant> tenants;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".key") continue;
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    const absl::string_view key = absl::StripAsciiWhitespace(text);
    if (key.size() < kShortestKey) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": a key has at least ", kShortestKey, " characters"));
    }
    Tenant tenant = {.name = path.stem().string(), .key_hash = Hash(key), .credential_file = ""};
    std::filesystem::path credential = path;
    credential.replace_extension(".credential");
    if (std::filesystem::exists(credential)) tenant.credential_file = credential.string();
    for (const Tenant& other : tenants) {
      if (other.key_hash == tenant.key_hash) {
        return absl::InvalidArgumentError(
            absl::StrCat(other.name, " and ", tenant.name, " have the same key"));
      }
    }
    tenants.push_back(tenant);
  }
  if (tenants.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no tenant: ", folder, " has no file NAME.key"));
  }
  return tenants;
}

const Tenant* FindTenant(const std::vector<Tenant>& tenants, absl::string_view key) {
  const std::string hash = Hash(key);
  const Tenant* found = nullptr;
  for (const Tenant& tenant : tenants) {
    if (CRYPTO_memcmp(hash.data(), tenant.key_hash.data(), hash.size()) == 0) found = &tenant;
  }
  return found;
}

}  // namespace model_server
