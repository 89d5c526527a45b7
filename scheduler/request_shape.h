// What a request is, by its bytes alone, before it is parsed.
#ifndef WARPLINE_SCHEDULER_REQUEST_SHAPE_H_
#define WARPLINE_SCHEDULER_REQUEST_SHAPE_H_

#include <google/protobuf/descriptor.h>

#include <string_view>

namespace warpline::scheduler {

// Returns the credential of a request: the text of field 1, which protobuf writes first. Empty if
// the message begins with something else. It is a part of `message`.
std::string_view LeadingCredential(std::string_view message);

// Returns false for a message of type `type` that has so many parts (strings, messages and unknown
// fields, at all depths) that it takes far more memory than it has bytes: two bytes of an empty
// message become a hundred. It ends with the first part that is too many, and looks at nothing
// twice. Returns false for what is no message, too.
bool HasFewParts(std::string_view message, const google::protobuf::Descriptor& type);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_REQUEST_SHAPE_H_
