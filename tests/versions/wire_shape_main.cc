// Prints what another version reads of ours, one line each, so that a change of it shows: the
// fields of all messages that cross the wire or are kept, the commands, and features and frames.
#include <cstddef>
#include <cstdio>
#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "proto/admin.pb.h"
#include "proto/commands.h"
#include "proto/frames.h"
#include "proto/scheduler.pb.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "scheduler/etcd/leader.pb.h"
#include "scheduler/store/record_messages.pb.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

std::string TypeOf(const FieldDescriptor& field) {
  if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
    return std::string(field.message_type()->full_name());
  }
  // Enumerations travel as numbers.
  return std::string(field.type_name());
}

void Print(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    std::printf("field %s %d %s %s\n", std::string(message.full_name()).c_str(), field.number(),
                std::string(field.name()).c_str(),
                ((field.is_repeated() ? "repeated " : "") + TypeOf(field)).c_str());
  }
  for (int i = 0; i < message.nested_type_count(); ++i) Print(*message.nested_type(i));
}

void Print(const FileDescriptor& file, std::set<std::string>* printed) {
  if (!printed->insert(std::string(file.name())).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) Print(*file.dependency(i), printed);
  for (int i = 0; i < file.message_type_count(); ++i) Print(*file.message_type(i));
  for (int i = 0; i < file.service_count(); ++i) {
    const auto& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      const auto& method = *service.method(j);
      std::printf("method %s %s %s\n", std::string(method.full_name()).c_str(),
                  std::string(method.input_type()->full_name()).c_str(),
                  std::string(method.output_type()->full_name()).c_str());
    }
  }
}

int Run() {
  std::set<std::string> printed;
  Print(*warpline_internal::Hello::descriptor()->file(), &printed);
  Print(*warpline_internal::TokenBody::descriptor()->file(), &printed);
  Print(*warpline_internal::ToWorker::descriptor()->file(), &printed);
  Print(*warpline_state::Tenant::descriptor()->file(), &printed);
  Print(*warpline_etcd::Leader::descriptor()->file(), &printed);
  for (const CommandInfo& command : kCommandTable) {
    std::printf("command %d %s version=%d bytes=%d tail=%d\n", static_cast<int>(command.id),
                command.name, command.version, command.body_bytes, command.has_tail ? 1 : 0);
  }
  std::printf(
      "journal head=%zu slot=%zu slots=%zu data=%zu flags_at=%zu slots_used_at=%zu usage_at=%zu\n",
      size_t{kJournalHeadBytes}, size_t{kJournalSlotBytes}, size_t{kJournalSlots},
      size_t{kJournalDataBytes}, offsetof(JournalHead, flags), offsetof(JournalHead, slots_used),
      offsetof(JournalHead, usage));
  for (size_t i = 0; i < kUsageCount; ++i) {
    std::printf("usage %zu %s\n", i, kUsageTable[i].stat);
  }
  std::printf("protocol newest %u\n", kProtocolVersion);
  return 0;
}

}  // namespace
}  // namespace warpline

int main() { return warpline::Run(); }
