#include "scheduler/request_shape.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>

namespace warpline::scheduler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A message may cost this much up to any place, and one more for each kBytesOfCost bytes before
// that. A string costs 1, and a message or an unknown field 2. What honest servers report costs a
// third of that.
constexpr size_t kFreeCost = 2048;
constexpr size_t kBytesOfCost = 3;
// protobuf itself goes no deeper.
constexpr int kMostDepth = 100;

// Returns true for a field that is written as its type is. Others are kept as unknown ones.
bool IsWrittenAs(const FieldDescriptor& field, WireFormatLite::WireType wire) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  const bool packed = field.is_packable() && wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  return packed || wire == WireFormatLite::WireTypeForFieldType(type);
}

class PartCounter {
 public:
  explicit PartCounter(std::string_view message)
      : input_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())) {
  }

  bool Count(const Descriptor& type, int depth) {
    if (depth > kMostDepth) return false;
    while (const uint32_t tag = input_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const auto wire = WireFormatLite::GetTagWireType(tag);
      if (field != nullptr && !IsWrittenAs(*field, wire)) field = nullptr;
      const bool deeper = field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE;
      const bool text = wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      cost_ += deeper || field == nullptr ? 2 : text ? 1 : 0;
      if (cost_ > kFreeCost + Position() / kBytesOfCost) return false;
      if (!deeper) {
        if (!WireFormatLite::SkipField(&input_, tag)) return false;
        continue;
      }
      uint32_t bytes;
      if (!input_.ReadVarint32(&bytes)) return false;
      const auto limit = input_.PushLimit(static_cast<int>(bytes));
      if (!Count(*field->message_type(), depth + 1)) return false;
      if (input_.BytesUntilLimit() != 0) return false;
      input_.PopLimit(limit);
    }
    return input_.ConsumedEntireMessage() || depth > 0;
  }

 private:
  size_t Position() const { return static_cast<size_t>(input_.CurrentPosition()); }

  CodedInputStream input_;
  size_t cost_ = 0;
};

}  // namespace

std::string_view LeadingCredential(std::string_view message) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()),
                         static_cast<int>(message.size()));
  uint32_t bytes;
  if (input.ReadTag() != WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED) ||
      !input.ReadVarint32(&bytes)) {
    return {};
  }
  const auto begin = static_cast<size_t>(input.CurrentPosition());
  return bytes <= message.size() - begin ? message.substr(begin, bytes) : std::string_view();
}

bool HasFewParts(std::string_view message, const Descriptor& type) {
  return PartCounter(message).Count(type, 0);
}

}  // namespace warpline::scheduler
