#include "client_stub/private_tables/compiled_ptx.h"

#include <unistd.h>

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

// Names a program on this thread.
bool NameHere(const ContentHash& program, ContentHash* name) {
  const pid_t thread = gettid();
  std::string text(reinterpret_cast<const char*>(program.data()), program.size());
  text.append(reinterpret_cast<const char*>(&thread), sizeof(thread));
  return HashContent(text, name);
}

}  // namespace

bool CompiledPtx::Describe(std::string_view bytes, Source* source) const {
  source->ptx = nullptr;
  if (!HashContent(bytes, &source->hash)) return false;
  if (KindOf(bytes) == fatbin::ImageKind::kPtx) {
    source->ptx = std::make_shared<const std::string>(bytes);
    return true;
  }
  ContentHash name;
  if (!NameHere(source->hash, &name)) return false;
  MutexLock lock(&mu_);
  source->ptx = FindHash(name);
  return true;
}

void CompiledPtx::Note(const Source& source, std::string_view result) {
  const fatbin::ImageKind made = KindOf(result);
  ContentHash name;
  if (made == fatbin::ImageKind::kPtx) {
    if (!NameHere(source.hash, &name)) return;
    auto text = std::make_shared<const std::string>(result);
    MutexLock lock(&mu_);
    return Keep(name, std::move(text));
  }
  if (made != fatbin::ImageKind::kElf || source.ptx == nullptr) return;
  if (!HashContent(result, &name)) return;
  MutexLock lock(&mu_);
  Keep(name, source.ptx);
}

CompiledPtx::Text CompiledPtx::Find(std::string_view code) const {
  {
    MutexLock lock(&mu_);
    if (texts_.empty()) return nullptr;
  }
  ContentHash hash;
  if (KindOf(code) != fatbin::ImageKind::kElf || !HashContent(code, &hash)) return nullptr;
  MutexLock lock(&mu_);
  return FindHash(hash);
}

CompiledPtx::Text CompiledPtx::FindHash(const ContentHash& hash) const {
  const auto it = texts_.find(hash);
  return it == texts_.end() ? nullptr : it->second;
}

void CompiledPtx::Keep(const ContentHash& hash, Text text) {
  const auto [it, inserted] = texts_.try_emplace(hash, nullptr);
  if (inserted) {
    order_.push_back(hash);
    bytes_ += kEntryBytes;
  } else {
    bytes_ -= it->second->size();
  }
  bytes_ += text->size();
  it->second = std::move(text);
  while (bytes_ > max_bytes_ && !order_.empty()) {
    const auto oldest = texts_.find(order_.front());
    bytes_ -= oldest->second->size() + kEntryBytes;
    texts_.erase(oldest);
    order_.pop_front();
  }
}

CompiledPtx& ProcessCompiledPtx() {
  static CompiledPtx* const compiled = new CompiledPtx;
  return *compiled;
}

}  // namespace warpline
