// A plug-in with messages and a protobuf of its own, the system's.
#include <string>

#include "proto/admin.pb.h"

extern "C" int plugin_answer() {
  warpline_internal::StatReply reply;
  reply.add_texts("from the plug-in");
  warpline_internal::StatReply copy;
  if (!copy.ParseFromString(reply.SerializeAsString())) return 0;
  const bool described = copy.GetDescriptor()->full_name() == "warpline_internal.StatReply" &&
                         copy.GetDescriptor()->field_count() == 1;
  return described && copy.texts(0) == reply.texts(0) ? 42 : 0;
}
