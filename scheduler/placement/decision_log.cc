#include "scheduler/placement/decision_log.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace warpline::placement {
namespace {

namespace fs = std::filesystem;
using warpline_placement::Record;

constexpr char kPrefix[] = "decisions.";

// The numbers of the files that there are.
std::set<uint64_t> NumbersIn(const std::string& folder) {
  std::set<uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    uint64_t number = 0;
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &number)) {
      numbers.insert(number);
    }
  }
  return numbers;
}

Record OptionsRecord(const AllocatorOptions& options) {
  Record record;
  auto* const to = record.mutable_options();
  to->set_pack(options.order == Order::kPack);
  to->set_max_waiting(options.max_waiting);
  to->set_max_waiting_of_tenant(options.max_waiting_of_tenant);
  to->set_max_reservations(options.max_reservations);
  to->set_max_reserved_percent(options.max_reserved_percent);
  to->set_patience_ns(absl::ToInt64Nanoseconds(options.patience));
  to->set_silence_ns(absl::ToInt64Nanoseconds(options.silence));
  to->set_preemption(options.preemption);
  to->set_notice_ns(absl::ToInt64Nanoseconds(options.notice));
  to->set_epoch_ns(absl::ToInt64Nanoseconds(options.epoch));
  return record;
}

}  // namespace

RecordedAllocator::RecordedAllocator(AllocatorOptions options, DecisionLogOptions log)
    : options_(options), log_(std::move(log)), allocator_(options) {}

absl::StatusOr<std::unique_ptr<RecordedAllocator>> RecordedAllocator::Create(
    AllocatorOptions options, DecisionLogOptions log) {
  if (!log.folder.empty()) {
    std::error_code error;
    fs::create_directory(log.folder, error);
    if (error || !fs::is_directory(log.folder, error)) {
      return absl::UnavailableError(absl::StrCat("cannot record decisions in ", log.folder, ": ",
                                                 error ? error.message() : "it is no folder"));
    }
    fs::permissions(log.folder, fs::perms::owner_all, error);
    log.files = std::max(log.files, 2u);
  }
  auto created = std::unique_ptr<RecordedAllocator>(new RecordedAllocator(options, std::move(log)));
  const auto numbers = NumbersIn(created->log_.folder);
  if (!numbers.empty()) created->number_ = *numbers.rbegin();
  // The first event begins a file.
  created->bytes_ = created->log_.file_bytes;
  return created;
}

void RecordedAllocator::Begin(int64_t now_ns) {
  file_.close();
  file_.clear();
  bytes_ = 0;
  status_ = absl::OkStatus();
  ++number_;
  const std::string path = absl::StrCat(log_.folder, "/", kPrefix, number_);
  file_.open(path, std::ios::binary | std::ios::trunc);
  if (!file_.is_open()) {
    status_ = absl::UnavailableError(absl::StrCat("cannot write ", path));
    return;
  }
  std::set<uint64_t> numbers = NumbersIn(log_.folder);
  while (numbers.size() > log_.files) {
    std::error_code ignored;
    fs::remove(absl::StrCat(log_.folder, "/", kPrefix, *numbers.begin()), ignored);
    numbers.erase(numbers.begin());
  }
  Write(OptionsRecord(options_));
  for (Event& event : allocator_.Snapshot(now_ns)) {
    Record record;
    *record.mutable_state() = std::move(event);
    Write(record);
  }
  // The state is not what the file's size is about.
  bytes_ = 0;
}

void RecordedAllocator::Write(const Record& record) {
  bytes_ += record.ByteSizeLong();
  if (!status_.ok()) return;
  const bool written =
      google::protobuf::util::SerializeDelimitedToOstream(record, &file_) && file_.flush();
  if (!written) {
    status_ =
        absl::UnavailableError(absl::StrCat("cannot write ", log_.folder, "/", kPrefix, number_));
  }
}

Decision RecordedAllocator::Apply(const Event& event) {
  if (log_.folder.empty()) return allocator_.Apply(event);
  if (bytes_ >= log_.file_bytes) Begin(event.at_ns());
  Record record;
  *record.mutable_event() = event;
  *record.mutable_decision() = allocator_.Apply(event);
  Write(record);
  return std::move(*record.mutable_decision());
}

}  // namespace warpline::placement
