#include "server/worker/session/journal_replay.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/command_spans.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {
namespace {

bool IsCode(CommandId id) { return FindCommand(id).replay == Replay::kCode; }
bool IsData(CommandId id) { return !IsCode(id); }

// The event of an EventCreate was complete at a time that the journal has, so its elapsed times can
// still be told.
void RestoreRecord(const std::string& body, int64_t host_ns, const CommandParts& parts)
    RUNS_ON(decoder_thread) {
  cmd::EventCreate create;
  std::memcpy(&create, body.data(), sizeof(create));
  const auto event = parts.tables->events.find(create.event);
  if (event == parts.tables->events.end()) return;
  auto record = std::make_shared<EventRecord>(parts.devices->events(0), create.flags,
                                              parts.order->legacy(0)->executor);
  record->event = create.event;
  record->host_ns.store(host_ns);
  record->restored = true;
  record->set_state(EventRecord::State::kComplete);
  event->second.latest = std::move(record);
}

void ReplayEntry(JournalEntry entry, const CommandParts& parts, Decoder* decoder)
    RUNS_ON(decoder_thread) {
  // Streams do not wait for the modules whose variables a command writes, because the application
  // did.
  if (WritesOf(entry.id, entry.body).bytes > 0) decoder->Finish();
  const bool recorded = entry.id == CommandId::kEventCreate && entry.value != 0;
  const std::string body = recorded ? entry.body : std::string();
  const int64_t host_ns = entry.value;
  decoder->Replay(std::move(entry));
  if (recorded) RestoreRecord(body, host_ns, parts);
}

}  // namespace

absl::Status ReplayJournal(uint64_t seq, const CommandParts& parts, Continuity* continuity,
                           Decoder* decoder) {
  if (parts.devices->several()) return absl::FailedPreconditionError("it has several devices");
  parts.sink->SetMuted(true);
  parts.recorder->StartReplay();
  if (parts.memory != nullptr) parts.memory->SetRestoring(true);
  decoder->ResumeAfter(seq);
  Journal* const journal = parts.recorder->journal();
  journal->ForEachOf([](CommandId id) { return id == CommandId::kGlobalFind; },
                     [&](const JournalEntry& entry) { parts.recorder->Expect(entry); });
  size_t count = 0;
  const auto over = [&] { return parts.ending->load(std::memory_order_seq_cst); };
  const auto replay = [&](JournalEntry entry) {
    decoder_thread.AssertOnLoop();
    if (over()) return;
    ReplayEntry(std::move(entry), parts, decoder);
    ++count;
  };
  // Code is replayed before everything else, so that nothing lies where its variables must.
  continuity->BeginPlacing();
  journal->ForEachOf(IsCode, replay);
  decoder->Finish();
  // Executors may still be placing then.
  if (over()) return absl::CancelledError("the session is over");
  continuity->EndPlacing();
  journal->ForEachOf(IsData, replay);
  decoder->Finish();
  if (over()) return absl::CancelledError("the session is over");
  parts.current->TakeRetired();
  if (parts.memory != nullptr) parts.memory->SetRestoring(false);
  const bool in_place = parts.recorder->EndReplay();
  parts.sink->SetMuted(false);
  if (const CudaResult fault = parts.completion->fault(); fault != CudaResult::kSuccess) {
    return absl::AbortedError(
        absl::StrCat("making the session again failed: ", CudaResultName(fault)));
  }
  if (!in_place) return absl::AbortedError("a module variable came to lie elsewhere");
  decoder->PublishUsage();
  parts.completion->ResumeAfter(seq);
  LogInfo("made again entries=", count, " after_command=", seq);
  return absl::OkStatus();
}

}  // namespace warpline::worker
