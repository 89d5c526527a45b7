#include "server/hostlink/handover/journal_file.h"

#include <sys/mman.h>

#include <utility>

#include "common/sealed_memory.h"

namespace warpline {

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Create() {
  absl::StatusOr<UniqueFd> fd = NewSealedMemory("warpline-journal", kJournalBytes);
  if (!fd.ok()) return fd.status();
  void* const head = mmap(nullptr, kJournalHeadBytes, PROT_READ, MAP_SHARED, fd->get(), 0);
  if (head == MAP_FAILED) return absl::ResourceExhaustedError("a journal cannot be mapped");
  return std::unique_ptr<JournalFile>(
      new JournalFile(*std::move(fd), static_cast<JournalHead*>(head)));
}

JournalFile::~JournalFile() { munmap(head_, kJournalHeadBytes); }

}  // namespace warpline
