#include "server/worker/continuity/journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kAlignment = 64;
// Memory is given back to the system in such pieces: fewer bytes are not worth a system call.
constexpr uint64_t kPiece = 64u << 10;
static_assert(kJournalDataStart % 4096 == 0 && kJournalDataBytes % kPiece == 0);
// The kind in the keys of NoteAs(), which sets them apart from those of objects.
constexpr uint32_t kOwnKind = ~uint32_t{0};

uint64_t Align(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

const CommandInfo* InfoOf(uint32_t id) {
  if (id == 0 || id > static_cast<uint32_t>(kCommandCount)) return nullptr;
  return &kCommandTable[id - 1];
}

uint64_t Field64(std::string_view body, int offset) {
  uint64_t value = 0;
  if (offset >= 0 && body.size() >= static_cast<size_t>(offset) + sizeof(value)) {
    std::memcpy(&value, body.data() + offset, sizeof(value));
  }
  return value;
}

uint64_t Field32(std::string_view body, int offset) {
  uint32_t value = 0;
  if (offset >= 0 && body.size() >= static_cast<size_t>(offset) + sizeof(value)) {
    std::memcpy(&value, body.data() + offset, sizeof(value));
  }
  return value;
}

}  // namespace

// An `order` of 0 marks a free slot; storing another commits the rest.
struct Journal::Slot {
  std::atomic<uint64_t> order;
  std::atomic<int64_t> value;
  uint64_t key;
  uint64_t subkey;
  uint64_t data_offset;  // From the start of the data; for bodies that do not fit here.
  uint32_t id;
  uint32_t own;  // Noted by NoteAs().
  uint32_t bytes;
  uint32_t reserved;
  char body[72];
};

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(UniqueFd fd) {
  static_assert(sizeof(Slot) == kJournalSlotBytes);
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_size != static_cast<off_t>(kJournalBytes)) {
    return absl::InvalidArgumentError("the descriptor is not that of a journal");
  }
  void* const map =
      mmap(nullptr, kJournalBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (map == MAP_FAILED) return absl::ResourceExhaustedError("the journal cannot be mapped");
  std::unique_ptr<Journal> journal(new Journal(std::move(fd), static_cast<char*>(map)));
  MutexLock lock(&journal->mu_);
  const absl::Status adopted = journal->Adopt();
  if (!adopted.ok()) return adopted;
  return journal;
}

Journal::Journal(UniqueFd fd, char* map)
    : fd_(std::move(fd)),
      map_(map),
      head_(reinterpret_cast<JournalHead*>(map)),
      touched_(kJournalDataBytes / kPiece) {}

Journal::~Journal() { munmap(map_, kJournalBytes); }

Journal::Slot* Journal::At(uint32_t slot) const {
  return reinterpret_cast<Slot*>(map_ + kJournalHeadBytes) + slot;
}

// Builds the index, and the lists of what is free, from the entries that count.
absl::Status Journal::Adopt() {
  const uint32_t used = head_->slots_used.load(std::memory_order_acquire);
  if (used > kJournalSlots) return absl::InvalidArgumentError("a journal with too many slots");
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  std::vector<std::pair<uint64_t, uint32_t>> entries;
  for (uint32_t i = 0; i < used; ++i) {
    const uint64_t order = At(i)->order.load(std::memory_order_acquire);
    if (order == 0) {
      free_slots_.push_back(i);
    } else {
      entries.emplace_back(order, i);
    }
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& [order, i] : entries) {
    Slot& slot = *At(i);
    const uint32_t id = slot.id;
    const uint32_t own = slot.own;
    const uint64_t bytes = slot.bytes;
    const uint64_t offset = slot.data_offset;
    const CommandInfo* const info = InfoOf(id);
    if (info == nullptr || bytes < info->body_bytes || order == ~uint64_t{0}) {
      return absl::InvalidArgumentError(absl::StrCat("journal entry ", i, " is no command"));
    }
    const bool outside = bytes > sizeof(slot.body);
    if (outside && (offset % kAlignment != 0 || offset > kJournalDataBytes ||
                    Align(bytes) > kJournalDataBytes - offset)) {
      return absl::InvalidArgumentError(absl::StrCat("journal entry ", i, " leaves the journal"));
    }
    if (outside) {
      taken.emplace_back(offset, Align(bytes));
    }
    const char* const body = outside ? map_ + kJournalDataStart + offset : slot.body;
    const std::string fields(body, info->body_bytes);
    const JournalRule& rule = info->rule;
    const Key key = own != 0 ? Key{kOwnKind, slot.key, id, slot.subkey}
                             : Key{static_cast<uint32_t>(rule.kind), Field64(fields, rule.handle),
                                   rule.action == JournalAction::kCreate ? 0 : id,
                                   Field32(fields, rule.attribute)};
    held_[key].push_back({i, 0});
    if (own == 0) AddLink(key, Field64(fields, rule.parent), static_cast<CommandId>(id));
    order_ = order;
    ++entries_;
  }
  std::sort(taken.begin(), taken.end());
  uint64_t end = 0;
  for (const auto& [offset, bytes] : taken) {
    if (offset < end) return absl::InvalidArgumentError("journal entries overlap");
    if (offset > end) free_space_[end] = offset - end;
    end = offset + bytes;
    Touch(offset, bytes);
  }
  if (end < kJournalDataBytes) free_space_[end] = kJournalDataBytes - end;
  // A former worker may have written where no entry is.
  for (const auto& [offset, bytes] : free_space_) Punch(offset, bytes);
  return absl::OkStatus();
}

std::vector<uint32_t> Journal::InOrder() {
  std::vector<std::pair<uint64_t, uint32_t>> slots;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, held] : held_) {
      for (const Held& entry : held) {
        slots.emplace_back(At(entry.slot)->order.load(std::memory_order_relaxed), entry.slot);
      }
    }
  }
  std::sort(slots.begin(), slots.end());
  std::vector<uint32_t> result;
  for (const auto& [order, slot] : slots) result.push_back(slot);
  return result;
}

CommandId Journal::CommandAt(uint32_t slot) const { return static_cast<CommandId>(At(slot)->id); }

bool Journal::Read(uint32_t index, JournalEntry* entry) {
  Slot& slot = *At(index);
  const uint32_t id = slot.id;
  const uint64_t bytes = slot.bytes;
  const uint64_t offset = slot.data_offset;
  if (InfoOf(id) == nullptr) return false;
  entry->id = static_cast<CommandId>(id);
  entry->value = slot.value.load(std::memory_order_acquire);
  if (bytes <= sizeof(slot.body)) {
    entry->body.assign(slot.body, bytes);
  } else {
    if (offset > kJournalDataBytes || bytes > kJournalDataBytes - offset) return false;
    entry->body.assign(map_ + kJournalDataStart + offset, bytes);
  }
  return entry->body.size() >= InfoOf(id)->body_bytes;
}

bool Journal::HasRoom(uint64_t bytes) {
  MutexLock lock(&mu_);
  if (free_slots_.empty() && head_->slots_used.load(std::memory_order_relaxed) >= kJournalSlots) {
    return false;
  }
  if (bytes <= sizeof(Slot::body)) return true;
  return std::any_of(free_space_.begin(), free_space_.end(),
                     [&](const auto& space) { return space.second >= Align(bytes); });
}

uint64_t Journal::bytes() {
  MutexLock lock(&mu_);
  return touched_pieces_ * kPiece +
         uint64_t{head_->slots_used.load(std::memory_order_relaxed)} * kJournalSlotBytes;
}

bool Journal::TakeSpace(uint64_t bytes, uint64_t* offset) {
  bytes = Align(bytes);
  for (auto it = free_space_.begin(); it != free_space_.end(); ++it) {
    if (it->second < bytes) continue;
    *offset = it->first;
    Touch(*offset, bytes);
    const uint64_t rest = it->second - bytes;
    free_space_.erase(it);
    if (rest > 0) free_space_[*offset + bytes] = rest;
    return true;
  }
  return false;
}

void Journal::GiveSpace(uint64_t offset, uint64_t bytes) {
  bytes = Align(bytes);
  const uint64_t first = offset / kPiece * kPiece;
  const uint64_t last = (offset + bytes + kPiece - 1) / kPiece * kPiece;
  const auto next = free_space_.lower_bound(offset);
  if (next != free_space_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_space_.erase(before);
    }
  }
  if (next != free_space_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_space_.erase(next);
  }
  free_space_[offset] = bytes;
  // Of the space that is free together now, what has just become so.
  const uint64_t from = std::max(offset, first);
  Punch(from, std::min(offset + bytes, last) - from);
}

void Journal::Touch(uint64_t offset, uint64_t bytes) {
  for (uint64_t i = offset / kPiece; i * kPiece < offset + bytes; ++i) {
    touched_pieces_ += touched_[i] ? 0 : 1;
    touched_[i] = true;
  }
}

void Journal::Punch(uint64_t offset, uint64_t bytes) {
  const uint64_t start = (offset + kPiece - 1) / kPiece;
  const uint64_t end = (offset + bytes) / kPiece;
  if (start >= end) return;
  const int punched = fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(kJournalDataStart + start * kPiece),
                                static_cast<off_t>((end - start) * kPiece));
  if (punched != 0) return;  // It stays counted, as it stays there.
  for (uint64_t i = start; i < end; ++i) {
    touched_pieces_ -= touched_[i] ? 1 : 0;
    touched_[i] = false;
  }
}

void Journal::AddLink(const Key& key, uint64_t parent, CommandId id) {
  const JournalRule& rule = kCommandTable[static_cast<int>(id) - 1].rule;
  if (rule.action != JournalAction::kCreate || rule.parent < 0) return;
  // A module or graph is made of an image, which it consumes; a kernel belongs to a module, and a
  // stream may belong to a partition.
  const bool from_image = rule.kind == JournalKind::kModule || rule.kind == JournalKind::kGraph;
  const auto other =
      static_cast<uint32_t>(from_image                          ? JournalKind::kImage
                            : rule.kind == JournalKind::kStream ? JournalKind::kPartition
                                                                : JournalKind::kModule);
  if (from_image) {
    children_.insert({std::get<0>(key), std::get<1>(key), other, parent});
  } else {
    children_.insert({other, parent, std::get<0>(key), std::get<1>(key)});
  }
}

bool Journal::Add(const Key& key, uint64_t parent, CommandId id, std::string_view body,
                  int64_t value) {
  uint32_t index;
  const bool outside = body.size() > sizeof(Slot::body);
  const uint32_t used = head_->slots_used.load(std::memory_order_relaxed);
  if (body.size() > ~uint32_t{0} || (free_slots_.empty() && used >= kJournalSlots)) return false;
  uint64_t offset = 0;
  if (outside && !TakeSpace(body.size(), &offset)) return false;
  if (free_slots_.empty()) {
    index = used;
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  Slot& slot = *At(index);
  slot.id = static_cast<uint32_t>(id);
  slot.own = std::get<0>(key) == kOwnKind ? 1 : 0;
  slot.key = std::get<1>(key);
  slot.subkey = std::get<3>(key);
  slot.bytes = static_cast<uint32_t>(body.size());
  slot.data_offset = offset;
  slot.value.store(value, std::memory_order_relaxed);
  std::memcpy(outside ? map_ + kJournalDataStart + offset : slot.body, body.data(), body.size());
  slot.order.store(++order_, std::memory_order_release);
  // Stored after the order, so that a slot that is looked at has been written.
  if (index == used) head_->slots_used.store(used + 1, std::memory_order_release);
  held_[key].push_back({index, 0});
  AddLink(key, parent, id);
  ++entries_;
  return true;
}

void Journal::Erase(uint32_t index) {
  Slot& slot = *At(index);
  slot.order.store(0, std::memory_order_release);
  const uint64_t bytes = slot.bytes;
  const uint64_t offset = slot.data_offset;
  if (bytes > sizeof(slot.body) && offset <= kJournalDataBytes &&
      bytes <= kJournalDataBytes - offset) {
    GiveSpace(offset, bytes);
  }
  free_slots_.push_back(index);
  --entries_;
}

bool Journal::Note(CommandId id, std::string_view body) {
  const JournalRule& rule = kCommandTable[static_cast<int>(id) - 1].rule;
  const uint64_t handle = Field64(body, rule.handle);
  const auto kind = static_cast<uint32_t>(rule.kind);
  MutexLock lock(&mu_);
  if (rule.action == JournalAction::kDestroy) {
    ForgetLocked(rule.kind, handle);
    return true;
  }
  if (rule.action == JournalAction::kCreate) {
    return Add({kind, handle, 0, 0}, Field64(body, rule.parent), id, body, 0);
  }
  return Replace({kind, handle, static_cast<uint32_t>(id), Field32(body, rule.attribute)}, id, body,
                 0);
}

bool Journal::NoteAs(CommandId id, uint64_t key, uint64_t subkey, std::string_view body,
                     int64_t value) {
  MutexLock lock(&mu_);
  const Key own = {kOwnKind, key, static_cast<uint32_t>(id), subkey};
  return Replace(own, id, body, value);
}

bool Journal::Replace(const Key& key, CommandId id, std::string_view body, int64_t value) {
  const auto old = held_.find(key);
  const std::vector<Held> before = old == held_.end() ? std::vector<Held>() : old->second;
  if (!Add(key, 0, id, body, value)) return false;
  for (const Held& entry : before) Erase(entry.slot);
  std::vector<Held>& held = held_[key];
  held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return true;
}

void Journal::ForgetKeys(uint64_t key, uint64_t count) {
  MutexLock lock(&mu_);
  auto it = held_.lower_bound({kOwnKind, key, 0, 0});
  while (it != held_.end() && std::get<1>(it->first) - key < count) {
    for (const Held& entry : it->second) Erase(entry.slot);
    it = held_.erase(it);
  }
}

void Journal::Forget(JournalKind kind, uint64_t handle) {
  MutexLock lock(&mu_);
  ForgetLocked(kind, handle);
}

void Journal::ForgetLocked(JournalKind kind, uint64_t handle) {
  const auto number = static_cast<uint32_t>(kind);
  std::vector<std::pair<uint32_t, uint64_t>> objects = {{number, handle}};
  // What belongs to the object goes first: a kernel without its module could not be made again.
  for (size_t i = 0; i < objects.size(); ++i) {
    const auto [k, h] = objects[i];
    auto link = children_.lower_bound({k, h, 0, 0});
    while (link != children_.end() && std::get<0>(*link) == k && std::get<1>(*link) == h) {
      objects.emplace_back(std::get<2>(*link), std::get<3>(*link));
      link = children_.erase(link);
    }
  }
  for (auto object = objects.rbegin(); object != objects.rend(); ++object) {
    auto it = held_.lower_bound({object->first, object->second, 0, 0});
    while (it != held_.end() && std::get<0>(it->first) == object->first &&
           std::get<1>(it->first) == object->second) {
      for (const Held& entry : it->second) Erase(entry.slot);
      it = held_.erase(it);
    }
  }
}

void Journal::SetValue(JournalKind kind, uint64_t handle, uint64_t order, int64_t value) {
  MutexLock lock(&mu_);
  const auto it = held_.find({static_cast<uint32_t>(kind), handle, 0, 0});
  if (it == held_.end() || it->second.empty() || it->second.front().value_order > order) return;
  it->second.front().value_order = order;
  At(it->second.front().slot)->value.store(value, std::memory_order_release);
}

void Journal::PublishRetired(uint64_t seq) {
  uint64_t published = head_->retired_seq.load(std::memory_order_relaxed);
  while (published < seq &&
         !head_->retired_seq.compare_exchange_weak(published, seq, std::memory_order_release)) {
  }
}

size_t Journal::entries() {
  MutexLock lock(&mu_);
  return entries_;
}

}  // namespace warpline::worker
