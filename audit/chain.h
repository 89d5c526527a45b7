// Whether a record of the audit is whole: each line follows from the one before it, over all files.
#ifndef WARPLINE_AUDIT_CHAIN_H_
#define WARPLINE_AUDIT_CHAIN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/record.h"

namespace warpline::audit {

// What is wrong with a record, and where: at a line of a file, or at a file as a whole.
struct Fault {
  uint64_t file = 0;
  uint64_t line = 0;  // From 1; 0 for the file.
  std::string what;

  // "audit-00000001.jsonl:7: it is not a record"
  std::string Text() const;
};

// Takes lines one after another and says what does not follow. After a fault it goes on from the
// line that it was found at. Thread-compatible.
class ChainChecker {
 public:
  // With `takes_anew` a first line that begins the chain anew, after a break, is no fault.
  explicit ChainChecker(bool takes_anew) : takes_anew_(takes_anew) {}

  // The lines that come are of the file with this number. `first` is true for the oldest file,
  // which need not be where the chain began.
  void BeginFile(uint64_t number, bool first);
  void Add(absl::string_view text);
  // Ends the file: `rest` is what follows its last newline.
  void EndFile(absl::string_view rest);

  // At most kMostFaults, in the order in which they were found.
  const std::vector<Fault>& faults() const { return faults_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // The last line that is a record.
  const Anchor& head() const { return head_; }
  uint64_t first_seq() const { return first_seq_; }
  uint64_t lines() const { return lines_; }
  // The files before the oldest are missing, and no later line says that they were removed.
  bool MissesBeginning() const;

  static constexpr size_t kMostFaults = 20;

 private:
  void Fail(std::string what);
  void CheckLink(const Line& line);
  void CheckFirstOfAll(const Line& line);

  const bool takes_anew_;
  std::vector<Fault> faults_;
  std::vector<std::string> notes_;
  Anchor head_;
  uint64_t first_seq_ = 0;
  uint64_t lines_ = 0;
  uint64_t file_ = 0;
  uint64_t line_ = 0;  // Of the file.
  // What a file ended in after its last newline, until the next line says that it knows.
  std::string torn_;
  std::string torn_file_;
  // The line before the oldest that is there; empty where the chain began.
  std::string before_;
  // What pruned files ended in, as later lines say.
  std::set<std::string> pruned_;
};

struct Verdict {
  uint64_t files = 0;
  uint64_t lines = 0;
  uint64_t first_seq = 0;
  Anchor head;
  std::vector<Fault> faults;       // None: the record is whole.
  std::vector<std::string> notes;  // What is as it may be, and worth knowing.
};

// Reads the whole record in `dir`. With `anchor`, that line must be in it. A server may be writing
// meanwhile. An error when the folder or a file cannot be read.
absl::StatusOr<Verdict> Verify(const std::string& dir, const std::optional<Anchor>& anchor);

// The end of one file, where a server goes on.
struct Tail {
  std::optional<Fault> fault;  // The first one.
  Anchor head;                 // Before the fault.
  uint64_t lines = 0;
  uint64_t bytes = 0;
  std::string torn;  // What follows the last newline.
};

absl::StatusOr<Tail> ReadTail(const std::string& dir, uint64_t number);

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_CHAIN_H_
