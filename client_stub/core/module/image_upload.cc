#include "client_stub/core/module/image_upload.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "common/crypto/content_hash.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

using Compressor = std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)>;

// The fastest of the usual levels: cubins shrink to a fifth with it at some hundred MB/s.
constexpr int kLevel = 1;
// A sample of this size shows whether an image shrinks: it must lose a fifth.
constexpr size_t kSample = 128u << 10;
constexpr size_t kLeastImage = 64u << 10;

bool Pays(size_t compressed, size_t raw) { return compressed < raw - raw / 5; }

// Compresses `raw` into `*out`; returns false where that would not save much.
bool Compress(ZSTD_CCtx* compressor, std::string_view raw, std::string* out) {
  out->resize(ZSTD_compressBound(raw.size()));
  const size_t size =
      ZSTD_compressCCtx(compressor, out->data(), out->size(), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size) != 0 || !Pays(size, raw.size())) return false;
  out->resize(size);
  return true;
}

// Returns null where compressing does not pay: to a server on this host, or for bytes that are
// compressed already.
Compressor CompressorFor(const SessionTerms& terms, std::string_view bytes) {
  Compressor none(nullptr, &ZSTD_freeCCtx);
  if (bytes.size() < kLeastImage || terms.same_host ||
      (terms.features & kFeatureCompressedImages) == 0) {
    return none;
  }
  Compressor compressor(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  std::string ignored;
  if (compressor == nullptr) return none;
  // The sample comes from the middle, because an image starts with headers and tables.
  const std::string_view sample =
      bytes.substr((bytes.size() - std::min(bytes.size(), kSample)) / 2);
  return Compress(compressor.get(), sample.substr(0, kSample), &ignored) ? std::move(compressor)
                                                                         : std::move(none);
}

}  // namespace

bool WorthAsking(const SessionTerms& terms, std::string_view bytes) {
  return bytes.size() >= kMinCachedImage && (terms.features & kFeatureModuleCache) != 0;
}

uint64_t AskForImage(Commands* commands, uint64_t image, std::string_view bytes) {
  cmd::ImageFind find = {image, bytes.size()};
  ContentHash hash;
  // If hashing fails, the hash stays zero, under which nothing is stored.
  if (HashContent(bytes, &hash)) std::memcpy(find.sha256, hash.data(), sizeof(find.sha256));
  return commands->Send(find);
}

uint64_t SendImage(const SessionTerms& terms, Commands* commands, uint64_t image,
                   std::string_view bytes) {
  const Compressor compressor = CompressorFor(terms, bytes);
  std::string frame;
  uint64_t seq = 0;
  for (size_t offset = 0; offset < bytes.size();) {
    const std::string_view part = bytes.substr(offset, compressor ? kMaxImagePart : kMaxTail);
    if (compressor != nullptr && Compress(compressor.get(), part, &frame) &&
        frame.size() <= kMaxTail) {
      const cmd::ImageZstd zstd = {image, bytes.size(), offset, part.size()};
      seq = commands->Send(zstd, frame);
      offset += part.size();
    } else {
      const std::string_view raw = part.substr(0, kMaxTail);
      seq = commands->Send(cmd::ImageData{image, bytes.size(), offset}, raw);
      offset += raw.size();
    }
    if (seq == 0) return 0;
  }
  return seq;
}

}  // namespace warpline::stub
