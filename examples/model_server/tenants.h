// The tenants of the model server: their keys, by which clients are told apart, and the credentials
// by which they get leases.
#ifndef WARPLINE_EXAMPLES_MODEL_SERVER_TENANTS_H_
#define WARPLINE_EXAMPLES_MODEL_SERVER_TENANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace model_server {

struct Tenant {
  std::string name;
  std::string key_hash;         // SHA-256 of the key that its clients show.
  std::string credential_file;  // For the scheduler; empty where there is none.
};

// Reads a folder, such as a mounted Secret: NAME.key has a tenant's key, and NAME.credential, where
// it is there, the tenant's credential for the scheduler. INVALID_ARGUMENT when there is no tenant,
// when a key is shorter than 16 characters, or when two tenants have the same.
absl::StatusOr<std::vector<Tenant>> ReadTenants(const std::string& folder);

// The tenant with this key, or null. The time that it takes does not depend on how much of a key is
// right.
const Tenant* FindTenant(const std::vector<Tenant>& tenants, absl::string_view key);

}  // namespace model_server

#endif  // WARPLINE_EXAMPLES_MODEL_SERVER_TENANTS_H_
