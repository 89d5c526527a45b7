#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "proto/frames.h"
#include "server/worker/commands/families.h"

namespace warpline::worker {
namespace {

// The size of the part of an image that one entry of the journal holds.
constexpr size_t kNotedPart = 4u << 20;

}  // namespace

bool ImageCommands::HasRoomFor(uint64_t total) {
  if (!HandlesLeft()) return false;
  const uint64_t most = parts_.limits->max_module_bytes;
  if (total > most - tables().module_bytes || !tables().leaving_bytes.AtMost(most)) {
    parts_.current->RefuseBeyond(Limit::kModuleBytes, most);
    return false;
  }
  if (!parts_.host_memory->Hold(HostMemory::kImages, tables().host_bytes() + total)) {
    parts_.current->Meet(Limit::kModuleBytes, tables().module_bytes);
    Refuse(CudaResult::kOutOfMemory);  // The server has told why.
    return false;
  }
  return true;
}

std::shared_ptr<Image> ImageCommands::NewImage(uint64_t handle, uint64_t total) {
  if (!HasRoomFor(total)) {
    tables().refused_images.Note(handle);
    return nullptr;
  }
  auto image = std::make_shared<Image>(total, parts_.images->FilesFor(total));
  tables().module_bytes += total;
  tables().images.emplace(handle, image);
  return image;
}

std::shared_ptr<Image> ImageCommands::ImageForPart(uint64_t handle, uint64_t total,
                                                   uint64_t offset) {
  if (std::shared_ptr<Image> known = FindIn(tables().images, handle)) return known;
  if (offset == 0) return NewImage(handle, total);
  Refuse(CudaResult::kInvalidValue);
  return nullptr;
}

void ImageCommands::On(const cmd::ImageData& command, std::string_view tail) {
  const auto image = ImageForPart(command.image, command.total, command.offset);
  if (image == nullptr) return;
  if (image->missing() || command.total != image->total() ||
      command.offset != image->bytes().size() || !image->Append(tail)) {
    tables().DropImage(command.image);
    return Refuse(CudaResult::kInvalidValue);
  }
  RetireHere();
}

void ImageCommands::On(const cmd::ImageZstd& command, std::string_view tail) {
  const auto image = ImageForPart(command.image, command.total, command.offset);
  if (image == nullptr) return;
  if (image->missing() || command.total != image->total() ||
      command.offset != image->bytes().size() || command.raw > kMaxImagePart ||
      !image->AppendZstd(tail, command.raw)) {
    tables().DropImage(command.image);
    return Refuse(CudaResult::kInvalidValue);
  }
  RetireHere();
}

// Waiting in the executor that loads modules would be no better, because its commands come in this
// order.
void ImageCommands::On(const cmd::ImageFind& command, std::string_view) {
  if (const std::shared_ptr<Image> known = FindIn(tables().images, command.image)) {
    // This is a replay: the journal had the parts as well.
    if (known->complete() && known->total() == command.total) return RetireHere();
    return Refuse(CudaResult::kInvalidValue);
  }
  ContentHash hash;
  static_assert(sizeof(hash) == sizeof(command.sha256));
  std::memcpy(hash.data(), command.sha256, sizeof(hash));
  const bool may_be_there =
      parts_.images->Takes(command.total) &&
      command.total <= parts_.limits->max_module_bytes - tables().module_bytes &&
      tables().leaving_bytes.AtMost(parts_.limits->max_module_bytes) &&
      parts_.host_memory->Hold(HostMemory::kImages, tables().host_bytes() + command.total);
  // First, so that nobody asks the server for what it cannot have.
  if (!HandlesLeft()) return;
  UniqueFd memory;
  if (may_be_there) memory = parts_.images->Find(hash, command.total);
  auto image = std::make_shared<Image>(command.total, nullptr);
  if (memory.valid() && image->Adopt(memory)) {
    if (!NoteParts(command.image, image->bytes())) return Refuse(CudaResult::kOutOfMemory);
    tables().module_bytes += command.total;
  } else {
    // Commands that use the image then say so, and the client sends it.
    image->set_missing();
  }
  tables().images.emplace(command.image, std::move(image));
  RetireHere();
}

// The session's next worker must not depend on what the server still has by then.
bool ImageCommands::NoteParts(uint64_t handle, std::string_view bytes) {
  Recorder* const recorder = parts_.recorder;
  if (recorder == nullptr) return true;
  for (size_t offset = 0; offset < bytes.size(); offset += kNotedPart) {
    const std::string_view part = bytes.substr(offset, kNotedPart);
    const cmd::ImageData data = {handle, bytes.size(), offset};
    std::string body(sizeof(data), '\0');
    std::memcpy(body.data(), &data, sizeof(data));
    body.append(part);
    if (!recorder->HasRoom(CommandId::kImageData, body)) {
      recorder->Refused(CommandId::kImageData, body);
      return false;
    }
    recorder->Note(CommandId::kImageData, body);
  }
  return true;
}

}  // namespace warpline::worker
