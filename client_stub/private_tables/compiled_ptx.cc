#include "client_stub/private_tables/compiled_ptx.h"

#include <unistd.h>

#include <iterator>
#include <utility>

#include "common/fatbin/fatbin.h"

namespace warpline {
namespace {

// An entry's own size.
constexpr uint64_t kEntryBytes = 256;

// Every PTX module has this directive, which other text that begins alike lacks.
constexpr char kVersion[] = ".version";

// Returns what bare bytes are; kOther for containers and anything else.
fatbin::ImageKind KindOf(std::string_view bytes) {
  const auto entries = fatbin::ParseImage(bytes);
  if (!entries.ok() || entries->size() != 1 || entries->front().payload.data() != bytes.data()) {
    return fatbin::ImageKind::kOther;
  }
  const fatbin::ImageKind kind = entries->front().kind;
  const bool is_text = kind == fatbin::ImageKind::kPtx;
  return is_text && bytes.find(kVersion) == bytes.npos ? fatbin::ImageKind::kOther : kind;
}

}  // namespace

bool CompiledPtx::Describe(std::string_view bytes, Source* source) const {
  const pid_t thread = gettid();
  ContentHasher hasher;
  hasher.Add({reinterpret_cast<const char*>(&thread), sizeof(thread)});
  hasher.Add(bytes);
  if (!hasher.Finish(&source->name)) return false;
  if (KindOf(bytes) == fatbin::ImageKind::kPtx) {
    source->ptx = std::make_shared<const std::string>(bytes);
    return true;
  }
  MutexLock lock(&mu_);
  source->ptx = FindName(source->name);
  return true;
}

void CompiledPtx::NotePtx(const Source& source, std::string_view ptx) {
  if (KindOf(ptx) != fatbin::ImageKind::kPtx) return;
  auto text = std::make_shared<const std::string>(ptx);
  MutexLock lock(&mu_);
  Keep(source.name, std::move(text));
}

bool CompiledPtx::NoteCode(const Source& source, std::string_view code) {
  ContentHash name;
  if (source.ptx == nullptr || !IsCode(code) || !HashContent(code, &name)) return false;
  MutexLock lock(&mu_);
  Keep(name, source.ptx);
  return true;
}

bool CompiledPtx::IsCode(std::string_view bytes) {
  return KindOf(bytes) == fatbin::ImageKind::kElf;
}

CompiledPtx::Text CompiledPtx::Find(std::string_view code) const {
  ContentHash name;
  if (!IsCode(code) || !HashContent(code, &name)) return nullptr;
  MutexLock lock(&mu_);
  return FindName(name);
}

CompiledPtx::Text CompiledPtx::FindName(const ContentHash& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second->text;
}

void CompiledPtx::Keep(const ContentHash& name, Text text) {
  if (const auto it = by_name_.find(name); it != by_name_.end()) Forget(it->second);
  bytes_ += text->size() + kEntryBytes;
  entries_.push_back({name, std::move(text)});
  by_name_[name] = std::prev(entries_.end());
  while (bytes_ > max_bytes_) Forget(entries_.begin());
}

void CompiledPtx::Forget(std::list<Entry>::iterator entry) {
  bytes_ -= entry->text->size() + kEntryBytes;
  by_name_.erase(entry->name);
  entries_.erase(entry);
}

CompiledPtx& ProcessCompiledPtx() {
  static CompiledPtx* const compiled = new CompiledPtx;
  return *compiled;
}

}  // namespace warpline
