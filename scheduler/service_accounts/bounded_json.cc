#include "scheduler/service_accounts/bounded_json.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline::scheduler {
namespace {

using nlohmann::json;

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

// Looks through a text without making anything of it but the names of the objects that are open.
class Inspector : public nlohmann::json_sax<json> {
 public:
  explicit Inspector(const JsonBounds& bounds) : bounds_(bounds) {}

  const std::string& fault() const { return fault_; }

  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(number_integer_t) override { return Count(); }
  bool number_unsigned(number_unsigned_t) override { return Count(); }
  bool number_float(number_float_t, const string_t&) override { return Count(); }
  bool string(string_t&) override { return Count(); }
  bool binary(binary_t&) override { return Fail("it holds what is no JSON"); }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    return open_.back().insert(name).second || Fail("an object has a name twice");
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("it is no JSON from byte ", at, " on"));
  }

 private:
  bool Fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  bool Count() { return ++values_ <= bounds_.values || Fail("it holds too many values"); }

  bool Open() {
    if (open_.size() >= bounds_.depth) return Fail("it is nested too deeply");
    open_.emplace_back();
    return Count();
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonBounds bounds_;
  size_t values_ = 0;
  std::vector<std::set<std::string>> open_;
  std::string fault_;
};

const json* Find(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes) return absl::InvalidArgumentError("it is too long");
  if (absl::StartsWith(text, kByteOrderMark)) {
    return absl::InvalidArgumentError("it begins with a byte order mark");
  }
  // The library takes it for the end of the text.
  if (absl::StrContains(text, '\0')) return absl::InvalidArgumentError("it is no JSON: it has a 0");
  Inspector inspector(bounds);
  if (!json::sax_parse(text.begin(), text.end(), &inspector)) {
    return absl::InvalidArgumentError(inspector.fault());
  }
  json parsed = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return absl::InvalidArgumentError("it is no JSON object");
  return parsed;
}

const std::string* TextIn(const json& object, const char* name) {
  const json* const found = Find(object, name);
  return found == nullptr ? nullptr : found->get_ptr<const std::string*>();
}

const json* ListIn(const json& object, const char* name) {
  const json* const found = Find(object, name);
  return found != nullptr && found->is_array() ? found : nullptr;
}

const json* ObjectIn(const json& object, const char* name) {
  const json* const found = Find(object, name);
  return found != nullptr && found->is_object() ? found : nullptr;
}

}  // namespace warpline::scheduler
