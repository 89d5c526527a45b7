#include "server/worker/continuity/recorder.h"

#include <cstring>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "common/cuda/cuda_numbers.h"
#include "proto/command_spans.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::worker {
namespace {

// The limit for one write to a variable, which is enough for constants and tables but not for bulk
// data.
constexpr uint64_t kMaxVariableWrite = 1u << 20;

uint64_t Field(std::string_view body, int offset) {
  uint64_t value = 0;
  if (offset >= 0 && body.size() >= static_cast<size_t>(offset) + sizeof(value)) {
    std::memcpy(&value, body.data() + offset, sizeof(value));
  }
  return value;
}

// Whether the journal keeps what the command created or set, or forgets it. The record of an event
// is not made again; the time when it was complete is noted beside its event.
bool Noted(const CommandInfo& command) {
  return command.rule.action == JournalAction::kDestroy ||
         (command.rule.action != JournalAction::kNone && command.replay != Replay::kNothing);
}

}  // namespace

void Recorder::Flag(uint32_t flags) {
  if ((flags_.load(std::memory_order_relaxed) & flags) == flags) return;
  flags_.fetch_or(flags, std::memory_order_relaxed);
  journal_->SetFlags(flags);
}

bool Recorder::MayGrow(uint64_t bytes) {
  return host_memory_ == nullptr ||
         host_memory_->Hold(HostMemory::kJournal, journal_->bytes() + bytes + kJournalSlotBytes);
}

bool Recorder::HasRoom(CommandId id, std::string_view body) {
  const CommandInfo& command = FindCommand(id);
  const bool grows =
      command.rule.action == JournalAction::kCreate || command.rule.action == JournalAction::kSet;
  if (!grows || !Noted(command)) return true;
  return journal_->HasRoom(body.size()) && MayGrow(body.size());
}

// A variable lies outside the arena. What lies in host memory the client has itself.
bool Recorder::MayBeOfVariables(const MemorySpan& span) const {
  if (span.bytes == 0 || Within(span, arena_base_, arena_bytes_)) return false;
  return !InHostArena(span.address) || !InHostArena(span.address + (span.bytes - 1));
}

void Recorder::Note(CommandId id, std::string_view body) {
  if (replaying_.load(std::memory_order_relaxed)) return;
  const CommandInfo& command = FindCommand(id);
  if (Noted(command)) {
    if (id == CommandId::kModuleUnload) ForgetVariables(Field(body, command.rule.handle));
    if (!journal_->Note(id, body)) Flag(kJournalIncomplete);
    return;
  }
  const MemorySpan written = WritesOf(id, body);
  if (!MayBeOfVariables(written)) return;
  if (command.replay == Replay::kData) {
    NoteWrite(id, body, written);
  } else {
    // Only the device knows what it wrote.
    Flag(kJournalVariables);
  }
}

void Recorder::NoteWrite(CommandId id, std::string_view body, const MemorySpan& span) {
  {
    MutexLock lock(&mu_);
    const auto next = variables_.upper_bound(span.address);
    bool known = false;
    if (next != variables_.begin() && span.bytes <= kMaxVariableWrite) {
      const auto& [address, variable] = *std::prev(next);
      known = Within(span, address, variable.bytes);
    }
    if (!known) return Flag(kJournalVariables);
  }
  if (!MayGrow(body.size())) return Flag(kJournalVariables);
  // The stream may be gone by then.
  std::string command(body);
  std::memcpy(command.data(), &kLegacyStreamHandle, sizeof(kLegacyStreamHandle));
  if (!journal_->NoteAs(id, span.address, span.bytes, command, 0)) Flag(kJournalVariables);
}

// A refused part of an image discards the parts before it.
void Recorder::Refused(CommandId id, std::string_view body) {
  const bool part = id == CommandId::kImageData || id == CommandId::kImageZstd;
  if (part && !replaying_.load(std::memory_order_relaxed)) {
    journal_->Forget(JournalKind::kImage, Field(body, FindCommand(id).rule.handle));
  }
  // A graph that is refused consumes its image all the same.
  const bool graph = id == CommandId::kGraphCreate || id == CommandId::kGraphCreateIn;
  if (graph && !replaying_.load(std::memory_order_relaxed)) {
    journal_->Forget(JournalKind::kImage, Field(body, FindCommand(id).rule.parent));
  }
}

void Recorder::OnRecorded(const EventRecord& record) {
  journal_->SetValue(JournalKind::kEvent, record.event, record.seq,
                     record.host_ns.load(std::memory_order_relaxed));
}

void Recorder::OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) {
  NoteVariable(FoundIn(task), task.tail, address, bytes);
}

void Recorder::NoteVariable(uint64_t module, std::string_view name, uint64_t address,
                            uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    variables_[address] = {bytes, module};
    if (replaying_.load(std::memory_order_relaxed)) {
      const auto expected = expected_.find({module, std::string(name)});
      if (expected != expected_.end() && expected->second != address) moved_ = true;
      return;
    }
  }
  const cmd::GlobalFind find = {module};
  std::string body(sizeof(find), '\0');
  std::memcpy(body.data(), &find, sizeof(find));
  body.append(name);
  if (!journal_->NoteAs(CommandId::kGlobalFind, address, module, body,
                        static_cast<int64_t>(address))) {
    Flag(kJournalIncomplete);
  }
}

void Recorder::ForgetVariables(uint64_t module) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  {
    MutexLock lock(&mu_);
    for (auto it = variables_.begin(); it != variables_.end();) {
      if (it->second.module != module) {
        ++it;
        continue;
      }
      ranges.emplace_back(it->first, it->second.bytes);
      it = variables_.erase(it);
    }
  }
  for (const auto& [address, bytes] : ranges) journal_->ForgetKeys(address, bytes);
}

void Recorder::Expect(const JournalEntry& entry) {
  if (entry.id != CommandId::kGlobalFind) return;
  const std::string_view body = entry.body;
  MutexLock lock(&mu_);
  expected_[{Field(body, 0), std::string(body.substr(sizeof(cmd::GlobalFind)))}] =
      static_cast<uint64_t>(entry.value);
}

std::vector<std::pair<std::string, uint64_t>> Recorder::ExpectedOf(uint64_t module) {
  std::vector<std::pair<std::string, uint64_t>> variables;
  MutexLock lock(&mu_);
  for (auto it = expected_.lower_bound({module, ""});
       it != expected_.end() && it->first.first == module; ++it) {
    variables.emplace_back(it->first.second, it->second);
  }
  return variables;
}

bool Recorder::EndReplay() {
  replaying_.store(false);
  MutexLock lock(&mu_);
  // A variable that was not found at all counts as moved, too.
  for (const auto& [variable, address] : expected_) moved_ |= !variables_.contains(address);
  expected_.clear();
  return !moved_;
}

}  // namespace warpline::worker
