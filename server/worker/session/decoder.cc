#include "server/worker/session/decoder.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/frames.h"
#include "proto/wire.h"
#include "server/hostlink/handover/host_bytes.h"
#include "server/worker/commands/vetted_programs.h"
#include "server/worker/executors/session_log.h"

namespace warpline::worker {
namespace {

// The rows that count the commands of the engines; no other command keeps one busy.
struct EngineRow {
  Engine engine;
  Usage usage;
};
constexpr EngineRow kEngineRows[] = {{Engine::kCompute, Usage::kComputeCommands},
                                     {Engine::kCopyIn, Usage::kCopyInCommands},
                                     {Engine::kCopyOut, Usage::kCopyOutCommands}};

constexpr bool HasRow(Engine engine) {
  return std::any_of(std::begin(kEngineRows), std::end(kEngineRows),
                     [engine](const EngineRow& row) { return row.engine == engine; });
}
static_assert(std::all_of(std::begin(kCommandTable), std::end(kCommandTable),
                          [](const CommandInfo& command) {
                            const Engine engine = command.engine;
                            return static_cast<size_t>(engine) < kEngineCount &&
                                   (engine == Engine::kNothing ||
                                    (HasRow(engine) && command.executor == ExecutorKind::kStream));
                          }));

}  // namespace

Decoder::Decoder(const CommandParts* parts, SharedUsage* usage, Rights rights)
    : parts_(*parts), usage_(usage), rights_(rights), families_(parts) {}

std::string_view Decoder::TakePayload(std::string payload) {
  const uint64_t bytes = payload.size();
  queued_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const std::shared_ptr<const std::string> kept(new std::string(std::move(payload)),
                                                [this, bytes](const std::string* p) {
                                                  delete p;
                                                  queued_bytes_.fetch_sub(bytes);
                                                  parts_.progress->Notify();
                                                });
  parts_.current->SetPayload(kept);
  return *kept;
}

absl::Status Decoder::Decode(std::string payload) {
  CommandsHeader header;
  std::string_view rest = payload;
  if (!TakeStruct(&rest, &header)) return absl::InvalidArgumentError("half a commands header");
  if (header.first_seq != next_seq_ || header.acked != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("commands from ", header.first_seq, ", expected ", next_seq_));
  }
  AwaitRoom();
  CommandReader reader(TakePayload(std::move(payload)).substr(sizeof(header)));
  uint32_t count = 0;
  absl::Status status;
  while (!reader.Done()) {
    if (ending()) {
      status = absl::CancelledError("the session is over");
      break;
    }
    absl::StatusOr<CommandView> command = reader.Next();
    if (!command.ok()) {
      status = command.status();
      break;
    }
    ++count;
    parts_.current->Begin(next_seq_++, command->id);
    if (Answers(command->id)) parts_.sink->Asked();
    Execute(command->body);
  }
  parts_.current->SetPayload(nullptr);
  if (status.ok() && count != header.count) {
    status =
        absl::InvalidArgumentError(absl::StrCat(count, " commands in a batch of ", header.count));
  }
  // Says this before any executor can complete something of it, so that the last report says that
  // all is done.
  parts_.completion->SetDecoded(next_seq_ - 1);
  PublishUsage();
  parts_.order->Flush();
  parts_.order->ForgetFinished();
  parts_.completion->AfterDecoded(parts_.current->TakeRetired());
  return status;
}

void Decoder::AwaitRoom() {
  const uint64_t queued = queued_bytes_.load();
  uint64_t most = parts_.limits->max_queued_bytes;
  if (queued > kFreeQueuedBytes &&
      !parts_.host_memory->Hold(HostMemory::kQueue, queued - kFreeQueuedBytes)) {
    most = std::min(most, kFreeQueuedBytes);
  }
  if (!TooMuchQueued(most)) return;
  parts_.current->Meet(Limit::kCommands, parts_.limits->max_queued_commands);
  parts_.order->GiveBackAdopted();
  parts_.progress->Await([this, most] {
    decoder_thread.AssertOnLoop();
    return ending() || !TooMuchQueued(most);
  });
}

bool Decoder::TooMuchQueued(uint64_t most_bytes) const {
  return queued_bytes_.load() > most_bytes ||
         next_seq_ - 1 - parts_.completion->retired_count() > parts_.limits->max_queued_commands ||
         static_cast<size_t>(parts_.completion->waiting()) > parts_.limits->max_watches;
}

void Decoder::PublishUsage() {
  HostMemory* const host = parts_.host_memory;
  host->Hold(HostMemory::kImages, parts_.tables->host_bytes());
  if (parts_.recorder != nullptr) {
    host->Hold(HostMemory::kJournal, parts_.recorder->journal()->bytes());
  }
  const uint64_t queued = queued_bytes_.load();
  host->Hold(HostMemory::kQueue, queued - std::min(queued, kFreeQueuedBytes));
  usage_->Set(Usage::kHandles, CountHandles(parts_));
  usage_->Set(Usage::kModuleBytes, parts_.tables->module_bytes);
  usage_->commands_taken.store(next_seq_ - 1, std::memory_order_relaxed);
  const EngineCounts accepted = parts_.order->TakeGiven();
  for (const EngineRow& row : kEngineRows) {
    const uint64_t count = accepted[static_cast<size_t>(row.engine)];
    if (count != 0) usage_->Add(row.usage, count);
  }
}

bool Decoder::Permitted() {
  const CommandInfo& command = FindCommand(parts_.current->id());
  const VettedPrograms* const vetted = parts_.vetted;
  const bool allowed = Allows(rights_, command.capability) ||
                       (vetted != nullptr && VettedPrograms::Allow(parts_.current->id()));
  const bool other_code = vetted != nullptr && VettedPrograms::RunsOtherCode(parts_.current->id());
  if (allowed && !other_code) return true;
  const Rights missing = RightOf(other_code ? Capability::kLoad : command.capability);
  if ((said_missing_ & missing) == 0) {
    said_missing_ |= missing;
    LogWarning("not permitted command=", parts_.current->seq(), " call=", command.name,
               " rights=", FormatRights(rights_));
  }
  parts_.current->Refuse(CudaResult::kNotPermitted);
  return false;
}

bool Decoder::FitsInJournal(std::string_view body) {
  const CommandId id = parts_.current->id();
  if (parts_.recorder == nullptr || parts_.recorder->HasRoom(id, body)) return true;
  if (const LogPermit permit = parts_.log->Ask(kJournalFullLine)) {
    permit.Warning("the session's journal is full: ", FindCommand(id).name, " of ", body.size(),
                   " bytes is refused");
  }
  parts_.current->Refuse(CudaResult::kOutOfMemory);
  return false;
}

void Decoder::Execute(std::string_view body) {
  if (!Permitted() || !FitsInJournal(body)) return;
  const CommandId id = parts_.current->id();
  families_.Dispatch(id, body);
  if (parts_.recorder == nullptr) return;
  if (parts_.current->refused()) {
    parts_.recorder->Refused(id, body);
  } else {
    parts_.recorder->Note(id, body);
  }
}

void Decoder::Replay(JournalEntry entry) {
  const auto body = std::make_shared<const std::string>(std::move(entry.body));
  parts_.current->Begin(next_seq_ - 1, entry.id);
  parts_.current->SetPayload(body);
  if (Answers(entry.id)) parts_.sink->Asked();
  families_.Dispatch(entry.id, *body);
  parts_.current->SetPayload(nullptr);
  (void)parts_.order->TakeGiven();  // It was counted when it was new.
}

void Decoder::Finish() {
  parts_.order->Flush();
  parts_.order->GiveBackAdopted();
  parts_.progress->Await([this] { return ending() || parts_.completion->Idle(); });
}

void Decoder::ResumeAfter(uint64_t seq) { next_seq_ = seq + 1; }

}  // namespace warpline::worker
