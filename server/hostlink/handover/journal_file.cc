#include "server/hostlink/handover/journal_file.h"

#include <sys/mman.h>

#include <utility>

#include "common/sealed_memory.h"

namespace warpline {

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Create() {
  absl::StatusOr<UniqueFd> memory = CreateMemory();
  if (!memory.ok()) return memory.status();
  return Adopt(*std::move(memory));
}

absl::StatusOr<UniqueFd> JournalFile::CreateMemory() {
  return NewSealedMemory("warpline-journal", kJournalBytes);
}

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Adopt(UniqueFd memory) {
  const auto bytes = SealedBytes(memory.get());
  if (!bytes.ok() || *bytes != kJournalBytes) {
    return absl::InvalidArgumentError("the memory is no journal's");
  }
  void* const head = mmap(nullptr, kJournalHeadBytes, PROT_READ, MAP_SHARED, memory.get(), 0);
  if (head == MAP_FAILED) return absl::ResourceExhaustedError("a journal cannot be mapped");
  return std::unique_ptr<JournalFile>(
      new JournalFile(std::move(memory), static_cast<JournalHead*>(head)));
}

JournalFile::~JournalFile() { munmap(head_, kJournalHeadBytes); }

}  // namespace warpline
