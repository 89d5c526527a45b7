// JSON from whoever may send it: read strictly, and refused where it is larger, deeper or more
// ambiguous than what is expected.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BOUNDED_JSON_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BOUNDED_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::scheduler {

struct JsonBounds {
  size_t bytes = 8192;
  size_t depth = 8;     // Of objects and lists within each other; 1 for an object of plain values.
  size_t values = 512;  // All values together, those of lists and objects included.
};

// Returns the object that `text` is. INVALID_ARGUMENT, with the reason, for what is not one JSON
// object (RFC 8259, in UTF-8 and without a byte order mark), exceeds the bounds, or has a name
// twice in one object: readers do not agree on which of the two counts. The work is linear in the
// text, and nothing is kept of a text that is refused.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, const JsonBounds& bounds);

// The text or list `name` of an object; null where there is none or it is something else.
const std::string* TextIn(const nlohmann::json& object, const char* name);
const nlohmann::json* ListIn(const nlohmann::json& object, const char* name);
const nlohmann::json* ObjectIn(const nlohmann::json& object, const char* name);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BOUNDED_JSON_H_
