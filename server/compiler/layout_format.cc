#include "server/compiler/layout_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "guard/rewrite/words.h"

namespace warpline::compiler {
namespace {

constexpr uint32_t kMagic = 0x314c5057;  // "WPL1"
// Constants of a module, and variables that any device has room for.
constexpr uint64_t kMostConstBytes = uint64_t{64} << 10;
constexpr uint64_t kMostGlobalBytes = uint64_t{1} << 40;
// Of a name: that of ptx/lexer.cc. Workers put them into messages of bounded size.
constexpr uint64_t kMostNameBytes = 16384;
// Of what is for people.
constexpr uint64_t kMostTextBytes = 4096;
// Of kernels, of variables and of refusals each.
constexpr uint64_t kMostThings = 1u << 16;

class Writer {
 public:
  void Put(uint64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void Put(std::string_view text) {
    Put(uint64_t{text.size()});
    bytes_.append(text);
  }
  // What is for people is cut.
  void PutWords(std::string_view text) { Put(text.substr(0, kMostTextBytes)); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first thing that is not there everything reads as zero and empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    if (bytes_.size() < sizeof(number)) return Fail();
    std::memcpy(&number, bytes_.data(), sizeof(number));
    bytes_.remove_prefix(sizeof(number));
    return number;
  }
  std::string Text(uint64_t most) {
    const uint64_t size = Number();
    if (size > std::min<uint64_t>(most, bytes_.size())) {
      Fail();
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  std::string Name() { return Text(kMostNameBytes); }
  std::string Words() { return Text(kMostTextBytes); }
  // The number of elements that follow, each of which has at least `least` numbers.
  uint64_t Count(uint64_t least, uint64_t most = ~uint64_t{0}) {
    const uint64_t count = Number();
    return count > std::min(most, bytes_.size() / (least * sizeof(uint64_t))) ? Fail() : count;
  }
  bool whole() const { return !failed_ && bytes_.empty(); }

 private:
  uint64_t Fail() {
    failed_ = true;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool failed_ = false;
};

void PutVariables(const std::vector<guard::PlacedVariable>& variables, Writer* out) {
  out->Put(uint64_t{variables.size()});
  for (const guard::PlacedVariable& variable : variables) {
    out->Put(variable.name);
    out->Put(variable.offset);
    out->Put(variable.bytes);
    out->PutWords(variable.refusal);
  }
}

std::vector<guard::PlacedVariable> ReadVariables(Reader* in) {
  std::vector<guard::PlacedVariable> variables(in->Count(4, kMostThings));
  for (guard::PlacedVariable& variable : variables) {
    variable.name = in->Name();
    variable.offset = in->Number();
    variable.bytes = in->Number();
    variable.refusal = in->Words();
  }
  return variables;
}

bool Consistent(const guard::ModuleLayout& layout) {
  if (layout.globals_bytes > kMostGlobalBytes ||
      layout.globals_image.size() > layout.globals_bytes) {
    return false;
  }
  for (const guard::Relocation& relocation : layout.relocations) {
    const uint64_t image = layout.globals_image.size();
    if (image < sizeof(uint64_t) || relocation.offset > image - sizeof(uint64_t)) return false;
  }
  return guard::LieWithin(layout.globals, 0, layout.globals_bytes) &&
         guard::LieWithin(layout.consts, guard::kGuardWordBytes, kMostConstBytes);
}

}  // namespace

std::string LayoutBytes(const guard::GuardedText& guarded) {
  Writer out;
  out.Put(uint64_t{kMagic});
  PutVariables(guarded.layout.globals, &out);
  PutVariables(guarded.layout.consts, &out);
  out.Put(guarded.layout.globals_bytes);
  out.Put(guarded.layout.globals_image);
  out.Put(uint64_t{guarded.layout.relocations.size()});
  for (const guard::Relocation& relocation : guarded.layout.relocations) {
    out.Put(relocation.offset);
  }
  out.Put(uint64_t{guarded.kernels.size()});
  for (const std::string& kernel : guarded.kernels) out.Put(kernel);
  out.Put(static_cast<uint64_t>(guarded.target));
  out.Put(uint64_t{guarded.leaves_records});
  out.Put(uint64_t{guarded.refusals.size()});
  for (const guard::Refusal& refusal : guarded.refusals) {
    out.Put(refusal.kernel);
    out.Put(refusal.function);
    out.PutWords(refusal.reason);
  }
  out.Put(uint64_t{guarded.sites.size()});
  for (const guard::CheckSite& site : guarded.sites) {
    out.Put(site.function);
    out.Put(uint64_t{site.line});
    out.PutWords(site.statement);
    out.PutWords(site.source);
    out.Put(uint64_t{site.writes});
  }
  return out.Take();
}

absl::StatusOr<guard::GuardedText> ParseLayout(std::string_view bytes) {
  Reader in(bytes);
  guard::GuardedText guarded;
  const bool known = in.Number() == kMagic;
  guarded.layout.globals = ReadVariables(&in);
  guarded.layout.consts = ReadVariables(&in);
  guarded.layout.globals_bytes = in.Number();
  guarded.layout.globals_image = in.Text(bytes.size());
  guarded.layout.relocations.resize(in.Count(1));
  for (guard::Relocation& relocation : guarded.layout.relocations) relocation.offset = in.Number();
  guarded.kernels.resize(in.Count(1, kMostThings));
  for (std::string& kernel : guarded.kernels) kernel = in.Name();
  guarded.target = static_cast<int>(in.Number() & INT32_MAX);
  guarded.leaves_records = in.Number() != 0;
  guarded.refusals.resize(in.Count(3, kMostThings));
  for (guard::Refusal& refusal : guarded.refusals) {
    refusal.kernel = in.Name();
    refusal.function = in.Name();
    refusal.reason = in.Words();
  }
  guarded.sites.resize(in.Count(5));
  for (guard::CheckSite& site : guarded.sites) {
    site.function = in.Name();
    site.line = static_cast<uint32_t>(in.Number());
    site.statement = in.Words();
    site.source = in.Words();
    site.writes = in.Number() != 0;
  }
  if (!known || !in.whole()) return absl::InvalidArgumentError("a layout that cannot be read");
  if (!Consistent(guarded.layout)) {
    return absl::InvalidArgumentError("a layout that contradicts itself");
  }
  return guarded;
}

}  // namespace warpline::compiler
