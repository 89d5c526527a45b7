#include "client_stub/private_tables/compile_cache.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "client_stub/private_tables/cache_folder.h"
#include "client_stub/private_tables/compiled_ptx.h"
#include "client_stub/private_tables/export_tables.h"
#include "client_stub/private_tables/table_slots.h"
#include "common/crypto/content_hash.h"
#include "cuda.h"

namespace warpline {
namespace {

constexpr char kCompileCache[] = "COMPILE_CACHE";
// The bounds of the driver's own cache.
constexpr uint64_t kDefaultBytes = 1ull << 30;
constexpr uint64_t kMostBytes = 4ull << 30;
constexpr int kDone = 0;

CacheFolder& Folder() {
  static CacheFolder* const folder = [] {
    CompileCacheSettings settings =
        ReadCompileCacheSettings([](const char* n) { return secure_getenv(n); });
    return new CacheFolder(std::move(settings.path), settings.max_bytes);
  }();
  return *folder;
}

// Names one compilation. The compiler makes and destroys it.
struct Key {
  ContentHash name;
  CompiledPtx::Source source;
  bool of_code = false;
  // False when what the compiler told does not decide the result.
  bool complete = true;
};

// The kind of a step to machine code. Other steps give PTX or, where nvJitLink makes code of a
// whole program, code that a step of this kind within them gave.
constexpr int kMachineCode = 1;

// Adds a text with its length, so that two neighbouring texts cannot be mistaken for others.
void AddText(ContentHasher* hasher, std::string_view text) {
  const uint64_t bytes = text.size();
  hasher->Add({reinterpret_cast<const char*>(&bytes), sizeof(bytes)});
  hasher->Add(text);
}

void AddText(ContentHasher* hasher, const char* text) {
  AddText(hasher, text == nullptr ? std::string_view() : std::string_view(text));
}

int MakeKey(void** key, int kind, const void* source, uint32_t bytes, const char* options,
            const char* host, const char* build, int first, int second) {
  if (key == nullptr || (source == nullptr && bytes > 0)) return CUDA_ERROR_INVALID_VALUE;
  *key = nullptr;
  ContentHasher hasher;
  const int numbers[] = {kind, first, second};
  hasher.Add({reinterpret_cast<const char*>(numbers), sizeof(numbers)});
  AddText(&hasher, options);
  AddText(&hasher, host);
  AddText(&hasher, build);
  const std::string_view text(static_cast<const char*>(source), bytes);
  AddText(&hasher, text);
  auto made = std::make_unique<Key>();
  if (!ProcessCompiledPtx().Describe(text, &made->source)) return CUDA_ERROR_UNKNOWN;
  made->of_code = kind == kMachineCode;
  if (made->of_code) {
    // NVRTC tells the options that change results, such as -ftz, for the PTX alone.
    made->complete = made->source.ptx != nullptr;
    if (made->complete) AddText(&hasher, *made->source.ptx);
  }
  if (!hasher.Finish(&made->name)) return CUDA_ERROR_UNKNOWN;
  *key = made.release();
  return kDone;
}

// nvJitLink takes anything but 0 for an error.
int DestroyKey(void* key) {
  delete static_cast<Key*>(key);
  return kDone;
}

// Gives the name under which the PTX behind machine code is kept.
bool NamePtxBehind(std::string_view code, ContentHash* name) {
  ContentHasher hasher;
  AddText(&hasher, "the PTX behind");
  AddText(&hasher, code);
  return hasher.Finish(name);
}

// Programs keep machine code themselves, too, as CuPy does, and load it without a compiler. So the
// PTX goes to the folder as well.
void NoteResult(const Key& key, std::string_view result) {
  if (!key.of_code) return ProcessCompiledPtx().NotePtx(key.source, result);
  ContentHash name;
  std::string known;
  if (!ProcessCompiledPtx().NoteCode(key.source, result) || !NamePtxBehind(result, &name)) return;
  if (!Folder().Find(name, &known)) Folder().Put(name, *key.source.ptx);
}

// Any result but 0 says that there is none. The caller gives the data back with FreeData().
int FindResult(void* key, int, void** data, uint32_t* bytes) {
  if (key == nullptr || data == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Key& wanted = *static_cast<Key*>(key);
  std::string result;
  if (!wanted.complete || !Folder().Find(wanted.name, &result) || result.empty()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  // Compiled again, it is named with its PTX.
  if (!wanted.of_code && CompiledPtx::IsCode(result) && PtxBehind(result) == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  void* copy = std::malloc(result.size());
  if (copy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  NoteResult(wanted, result);
  result.copy(static_cast<char*>(copy), result.size());
  *data = copy;
  *bytes = static_cast<uint32_t>(result.size());
  return kDone;
}

int KeepResult(void* key, int, const void* data, uint32_t bytes) {
  if (key == nullptr || data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const Key& made = *static_cast<Key*>(key);
  const std::string_view result(static_cast<const char*>(data), bytes);
  NoteResult(made, result);
  if (!made.complete) return CUDA_ERROR_NOT_SUPPORTED;
  return Folder().Put(made.name, result) ? kDone : CUDA_ERROR_NOT_SUPPORTED;
}

int FreeData(void* data) {
  std::free(data);
  return kDone;
}

}  // namespace

std::shared_ptr<const std::string> PtxBehind(std::string_view code) {
  if (!CompiledPtx::IsCode(code)) return nullptr;
  if (auto known = ProcessCompiledPtx().Find(code)) return known;
  ContentHash name;
  std::string kept;
  if (!NamePtxBehind(code, &name) || !Folder().Find(name, &kept) || kept.empty()) return nullptr;
  return std::make_shared<const std::string>(std::move(kept));
}

CompileCacheSettings ReadCompileCacheSettings(
    const std::function<const char*(const char*)>& variable) {
  const auto text = [&](const char* name) {
    const char* const value = variable(name);
    return std::string(value == nullptr ? "" : value);
  };
  CompileCacheSettings settings;
  const std::string disabled = text("CUDA_CACHE_DISABLE");
  if (!disabled.empty() && disabled != "0") return settings;
  settings.max_bytes = kDefaultBytes;
  uint64_t asked = 0;
  if (absl::SimpleAtoi(text("CUDA_CACHE_MAXSIZE"), &asked)) {
    settings.max_bytes = std::min(asked, kMostBytes);
  }
  if (settings.max_bytes == 0) return settings;
  // The folder lies beside the files that the driver keeps there, which have their own format.
  if (const std::string path = text("CUDA_CACHE_PATH"); !path.empty()) {
    settings.path = path + "/warpline";
  } else if (const std::string cache = text("XDG_CACHE_HOME"); cache.starts_with('/')) {
    settings.path = cache + "/warpline/compiled";
  } else if (const std::string home = text("HOME"); home.starts_with('/')) {
    settings.path = home + "/.cache/warpline/compiled";
  }
  return settings;
}

void* const* CompileCacheTable() {
  // The compilers want more than six slots; with fewer they take results back another way.
  static void* const slots[] = {
      Size(7),           Slot(&MakeKey),    Slot(&DestroyKey),
      Slot(&FindResult), Slot(&KeepResult), Slot(&Refused<kCompileCache, 5>),
      Slot(&FreeData),
  };
  return slots;
}

}  // namespace warpline
