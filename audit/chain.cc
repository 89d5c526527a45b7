#include "audit/chain.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/files.h"

namespace warpline::audit {

std::string Fault::Text() const {
  return absl::StrCat(FileName(file), line == 0 ? "" : absl::StrCat(":", line), ": ", what);
}

void ChainChecker::BeginFile(uint64_t number, bool first) {
  line_ = 0;
  const bool gap = !first && number != file_ + 1;
  file_ = number;
  if (gap) Fail("the file before it is missing");
}

void ChainChecker::Fail(std::string what) {
  if (faults_.size() < kMostFaults) faults_.push_back({file_, line_, std::move(what)});
}

void ChainChecker::CheckFirstOfAll(const Line& line) {
  first_seq_ = line.seq;
  if (line.event == InfoOf(Event::kBroken).name) {
    if (takes_anew_) return;
    return Fail(absl::StrCat("the chain was begun anew: ", line.Field("reason")));
  }
  if (line.prev != NoHash()) {
    before_ = line.prev;
  } else if (line.seq != 1 || line.event != InfoOf(Event::kBegan).name) {
    Fail("the chain does not begin as one does");
  }
}

void ChainChecker::CheckLink(const Line& line) {
  if (first_seq_ == 0) return CheckFirstOfAll(line);
  if (line.event == InfoOf(Event::kBroken).name) {
    return Fail(absl::StrCat("the chain was begun anew: ", line.Field("reason")));
  }
  if (line.seq > head_.seq + 1) {
    return Fail(
        absl::StrCat("lines are missing before it: it is record ", line.seq, " after ", head_.seq));
  }
  if (line.seq <= head_.seq) {
    return Fail(absl::StrCat("it is record ", line.seq, " after ", head_.seq));
  }
  if (line.prev != head_.hash) {
    return Fail("it does not follow from the line before it: one of the two was changed");
  }
  if (torn_.empty()) return;
  const bool known =
      line.event == InfoOf(Event::kRecovered).name && line.Field("torn_sha256") == HashOf(torn_);
  if (!known) return Fail(absl::StrCat(torn_file_, " before it does not end in a whole line"));
  notes_.push_back(absl::StrCat(torn_file_,
                                " ends in the beginning of a line, as after a loss of power; the "
                                "next file says so"));
}

void ChainChecker::Add(absl::string_view text) {
  ++line_;
  ++lines_;
  const auto line = ParseLine(text);
  if (!line.ok()) return Fail("it is not a record");
  CheckLink(*line);
  torn_.clear();
  if (line->event == InfoOf(Event::kPruned).name) pruned_.insert(line->Field("head"));
  head_ = {line->seq, HashOf(text)};
}

void ChainChecker::EndFile(absl::string_view rest) {
  if (rest.empty()) return;
  torn_ = std::string(rest);
  torn_file_ = FileName(file_);
}

bool ChainChecker::MissesBeginning() const {
  return !before_.empty() && pruned_.count(before_) == 0;
}

namespace {

void CheckAnchor(const Anchor& anchor, bool found, uint64_t last_file, Verdict* verdict) {
  if (found) return;
  std::string what;
  if (anchor.seq == 0) {
    what = "no record has the anchor's hash: lines were cut off or changed since";
  } else if (anchor.seq > verdict->head.seq) {
    what = absl::StrCat("the record ends at ", verdict->head.seq, ", and ", anchor.seq,
                        " was anchored: its end was cut off");
  } else if (anchor.seq < verdict->first_seq) {
    what = absl::StrCat("record ", anchor.seq, ", which was anchored, is older than what is kept");
  } else {
    what = absl::StrCat("record ", anchor.seq, " is not the one that was anchored");
  }
  verdict->faults.push_back({last_file, 0, std::move(what)});
}

}  // namespace

absl::StatusOr<Verdict> Verify(const std::string& dir, const std::optional<Anchor>& anchor) {
  const auto files = ListFiles(dir);
  if (!files.ok()) return files.status();
  if (files->empty()) return absl::NotFoundError(absl::StrCat("no record is in ", dir));
  ChainChecker checker(/*takes_anew=*/false);
  bool anchored = false;
  std::string rest;
  for (const uint64_t number : *files) {
    auto file = OpenFile(dir, number);
    if (!file.ok()) return file.status();
    LineReader reader(*std::move(file));
    checker.BeginFile(number, number == files->front());
    while (const auto line = reader.Next()) {
      checker.Add(*line);
      if (!anchor.has_value() || checker.head().hash != anchor->hash) continue;
      anchored = anchor->seq == 0 || anchor->seq == checker.head().seq;
    }
    rest = std::string(reader.rest());
    checker.EndFile(rest);
  }
  Verdict verdict = {.files = files->size(),
                     .lines = checker.lines(),
                     .first_seq = checker.first_seq(),
                     .head = checker.head(),
                     .faults = checker.faults(),
                     .notes = checker.notes()};
  if (!rest.empty()) {
    verdict.notes.push_back(absl::StrCat(FileName(files->back()),
                                         " ends in the beginning of a line, which is not counted"));
  }
  if (checker.MissesBeginning()) {
    verdict.faults.insert(verdict.faults.begin(),
                          {files->front(), 0, "the files before it are missing"});
  } else if (verdict.first_seq > 1) {
    verdict.notes.push_back(absl::StrCat("records before ", verdict.first_seq,
                                         " were removed by the server, as --audit_files says"));
  }
  if (anchor.has_value()) CheckAnchor(*anchor, anchored, files->back(), &verdict);
  return verdict;
}

absl::StatusOr<Tail> ReadTail(const std::string& dir, uint64_t number) {
  auto file = OpenFile(dir, number);
  if (!file.ok()) return file.status();
  LineReader reader(*std::move(file));
  ChainChecker checker(/*takes_anew=*/true);
  checker.BeginFile(number, /*first=*/true);
  Tail tail;
  while (const auto line = reader.Next()) {
    checker.Add(*line);
    if (!checker.faults().empty()) break;
    tail.head = checker.head();
    ++tail.lines;
  }
  if (!checker.faults().empty()) tail.fault = checker.faults().front();
  tail.bytes = reader.bytes();
  tail.torn = std::string(reader.rest());
  return tail;
}

}  // namespace warpline::audit
