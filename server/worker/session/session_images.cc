// How module images come: in parts, compressed or not, or from what the server has kept.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "proto/frames.h"
#include "server/worker/lanes/image.h"
#include "server/worker/session/session.h"

namespace warpline::worker {
namespace {

// Of an image, in one entry of the journal.
constexpr size_t kNotedPart = 4u << 20;

}  // namespace

std::shared_ptr<Image> Session::NewImage(uint64_t handle, uint64_t total) {
  if (!HandlesLeft()) return nullptr;
  if (total > limits_.max_module_bytes - module_bytes_) {
    RefuseBeyond(Limit::kModuleBytes, limits_.max_module_bytes);
    return nullptr;
  }
  const bool for_cache = image_cache_ != nullptr && total >= kMinCachedImage;
  auto image = std::make_shared<Image>(total, for_cache);
  module_bytes_ += total;
  images_.emplace(handle, image);
  return image;
}

std::shared_ptr<Image> Session::ImageForPart(uint64_t handle, uint64_t total, uint64_t offset) {
  const auto found = images_.find(handle);
  if (found != images_.end()) return found->second;
  if (offset == 0) return NewImage(handle, total);
  Refuse(CudaResult::kInvalidValue);
  return nullptr;
}

void Session::DropImage(uint64_t handle) {
  const auto image = images_.find(handle);
  if (!image->second->missing()) module_bytes_ -= image->second->total();
  images_.erase(image);
}

void Session::On(const cmd::ImageData& command, std::string_view tail) {
  const auto image = ImageForPart(command.image, command.total, command.offset);
  if (image == nullptr) return;
  if (image->missing() || command.total != image->total() ||
      command.offset != image->bytes().size() || !image->Append(tail)) {
    DropImage(command.image);
    return Refuse(CudaResult::kInvalidValue);
  }
  RetireHere();
}

void Session::On(const cmd::ImageZstd& command, std::string_view tail) {
  const auto image = ImageForPart(command.image, command.total, command.offset);
  if (image == nullptr) return;
  if (image->missing() || command.total != image->total() ||
      command.offset != image->bytes().size() || command.raw > kMaxImagePart ||
      !image->AppendZstd(tail, command.raw)) {
    DropImage(command.image);
    return Refuse(CudaResult::kInvalidValue);
  }
  RetireHere();
}

// The lane that loads modules would be no better place to wait: its commands come in this order.
void Session::On(const cmd::ImageFind& command, std::string_view) {
  if (const auto known = images_.find(command.image); known != images_.end()) {
    // A replay: the journal had the parts as well.
    if (known->second->complete() && known->second->total() == command.total) return RetireHere();
    return Refuse(CudaResult::kInvalidValue);
  }
  ContentHash hash;
  static_assert(sizeof(hash) == sizeof(command.sha256));
  std::memcpy(hash.data(), command.sha256, sizeof(hash));
  const bool may_be_there = image_cache_ != nullptr && command.total >= kMinCachedImage &&
                            command.total <= limits_.max_module_bytes - module_bytes_;
  UniqueFd memory;
  if (may_be_there) memory = image_cache_->Find(hash, command.total);
  if (memory.valid()) {
    if (!HandlesLeft()) return;
    auto image = std::make_shared<Image>(command.total, /*for_cache=*/false);
    if (image->Adopt(memory)) {
      if (!NoteParts(command.image, image->bytes())) return Refuse(CudaResult::kOutOfMemory);
      module_bytes_ += command.total;
      images_.emplace(command.image, std::move(image));
      return RetireHere();
    }
  }
  if (!HandlesLeft()) return;
  // Whoever uses it hears so, and sends it.
  auto image = std::make_shared<Image>(command.total, /*for_cache=*/false);
  image->set_missing();
  images_.emplace(command.image, std::move(image));
  RetireHere();
}

// The session's next worker must not depend on what the server still has by then.
bool Session::NoteParts(uint64_t handle, std::string_view bytes) {
  if (recorder_ == nullptr) return true;
  for (size_t offset = 0; offset < bytes.size(); offset += kNotedPart) {
    const std::string_view part = bytes.substr(offset, kNotedPart);
    const cmd::ImageData data = {handle, bytes.size(), offset};
    std::string body(sizeof(data), '\0');
    std::memcpy(body.data(), &data, sizeof(data));
    body.append(part);
    if (!recorder_->HasRoom(CommandId::kImageData, body)) {
      recorder_->Refused(CommandId::kImageData, body);
      return false;
    }
    recorder_->Note(CommandId::kImageData, body);
  }
  return true;
}

void Session::KeepImage(const Image& image) {
  if (image_cache_ != nullptr && image.fd() >= 0) image_cache_->Keep(image.fd(), image.total());
}

}  // namespace warpline::worker
