#include "policy/bpf/map.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace warpline::policy::bpf {
namespace {

constexpr uint64_t WordsOf(uint64_t bytes) { return (bytes + 7) / 8; }

uint64_t KeyWords(const MapShape& shape) {
  return shape.kind == MapKind::kHash ? WordsOf(shape.key_bytes) : 0;
}

uint64_t HeadWords(const MapShape& shape) {
  return shape.kind == MapKind::kHash ? 1 + KeyWords(shape) : 0;
}

uint64_t Places(const MapShape& shape) {
  return shape.kind == MapKind::kHash ? std::bit_ceil(2 * shape.capacity) : shape.capacity;
}

}  // namespace

// What the first word of a hash's place is, in its two low bits. The others count changes, so that
// a reader knows whether the key that it compared was replaced meanwhile (a sequence lock).
enum class Map::State : uint64_t {
  kEmpty = 0,  // Never taken: a search ends here.
  kTaken = 1,
  kRemoved = 2,
  kChanging = 3,
};

namespace {

constexpr uint64_t kStateBits = 3;

}  // namespace

// A key, filled up with zeros, and its hash (multiplicative: Knuth, volume 3, section 6.4).
struct Map::Key {
  Key(const void* bytes, const MapShape& shape, uint64_t count) {
    words[count - 1] = 0;
    std::memcpy(words.data(), bytes, shape.key_bytes);
    for (uint64_t i = 0; i < count; ++i) {
      hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
  }

  std::array<uint64_t, WordsOf(kMostKeyBytes)> words;
  uint64_t hash = 0;
};

absl::Status CheckShape(const MapShape& shape) {
  const auto refused = [&](absl::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat("map ", shape.name, " ", reason));
  };
  if (shape.kind != MapKind::kArray && shape.kind != MapKind::kHash) {
    return refused("is of no known kind");
  }
  if (shape.capacity == 0 || shape.capacity > kMostEntries) {
    return refused(
        absl::StrCat("has a capacity of ", shape.capacity, ", and not of 1 to ", kMostEntries));
  }
  if (shape.value_cells == 0 || shape.value_cells > kMostValueCells) {
    return refused(absl::StrCat("has values of ", shape.value_cells, " cells, and not of 1 to ",
                                kMostValueCells));
  }
  if (shape.kind == MapKind::kArray && shape.key_bytes != sizeof(uint32_t)) {
    return refused(
        absl::StrCat("is an array with keys of ", shape.key_bytes, " bytes, and not of 4"));
  }
  if (shape.key_bytes == 0 || shape.key_bytes > kMostKeyBytes) {
    return refused(
        absl::StrCat("has keys of ", shape.key_bytes, " bytes, and not of 1 to ", kMostKeyBytes));
  }
  return absl::OkStatus();
}

uint64_t MapBytes(const MapShape& shape) {
  return Places(shape) * (HeadWords(shape) + shape.value_cells) * sizeof(uint64_t);
}

Map::Map(MapShape shape)
    : shape_(std::move(shape)),
      key_words_(KeyWords(shape_)),
      head_(HeadWords(shape_)),
      stride_(head_ + shape_.value_cells),
      places_(Places(shape_)),
      words_(std::make_unique<Cell[]>(places_ * stride_)) {}

bool Map::Holds(Cell* place, const Key& key) const {
  const uint64_t before = place->load(std::memory_order_acquire);
  if ((before & kStateBits) != static_cast<uint64_t>(State::kTaken)) return false;
  for (uint64_t i = 0; i < key_words_; ++i) {
    // With acquire order, the word that is read last is not read after the state.
    if (place[1 + i].load(std::memory_order_acquire) != key.words[i]) return false;
  }
  return place->load(std::memory_order_relaxed) == before;
}

Map::Cell* Map::FindPlace(const Key& key) const {
  for (uint64_t probe = 0; probe < kMostProbes; ++probe) {
    Cell* place = PlaceAt((key.hash + probe) & (places_ - 1));
    if (Holds(place, key)) return place;
    if (place->load(std::memory_order_relaxed) == static_cast<uint64_t>(State::kEmpty)) break;
  }
  return nullptr;
}

Map::Cell* Map::FreePlace(const Key& key) const {
  if (entries_ == shape_.capacity) return nullptr;
  for (uint64_t probe = 0; probe < kMostProbes; ++probe) {
    Cell* place = PlaceAt((key.hash + probe) & (places_ - 1));
    const uint64_t state = place->load(std::memory_order_relaxed) & kStateBits;
    if (state != static_cast<uint64_t>(State::kTaken)) return place;
  }
  return nullptr;
}

Map::Cell* Map::Find(const void* key) const {
  if (shape_.kind == MapKind::kArray) {
    uint32_t index = 0;
    std::memcpy(&index, key, sizeof(index));
    return index < shape_.capacity ? CellsOf(PlaceAt(index)) : nullptr;
  }
  Cell* place = FindPlace(Key(key, shape_, key_words_));
  return place == nullptr ? nullptr : CellsOf(place);
}

Map::Cell* Map::FindOrAdd(const void* key) {
  if (Cell* cells = Find(key); cells != nullptr || shape_.kind == MapKind::kArray) return cells;
  const Key added(key, shape_, key_words_);
  const MutexLock lock(&mu_);
  Cell* place = FindPlace(added);  // Somebody else may have added it.
  if (place != nullptr) return CellsOf(place);
  place = FreePlace(added);
  if (place == nullptr) return nullptr;
  const uint64_t change = (place->load(std::memory_order_relaxed) | kStateBits) + 1;
  place->store(change | static_cast<uint64_t>(State::kChanging), std::memory_order_relaxed);
  for (uint64_t i = 0; i < key_words_; ++i) {
    // With release order, whoever sees this word sees that the place is changing.
    place[1 + i].store(added.words[i], std::memory_order_release);
  }
  for (uint64_t i = 0; i < shape_.value_cells; ++i) {
    CellsOf(place)[i].store(0, std::memory_order_relaxed);
  }
  place->store(change | static_cast<uint64_t>(State::kTaken), std::memory_order_release);
  ++entries_;
  return CellsOf(place);
}

bool Map::Remove(const void* key) {
  const MutexLock lock(&mu_);
  if (shape_.kind == MapKind::kArray) {
    Cell* cells = Find(key);
    if (cells == nullptr) return false;
    for (uint64_t i = 0; i < shape_.value_cells; ++i) cells[i].store(0, std::memory_order_relaxed);
    return true;
  }
  Cell* place = FindPlace(Key(key, shape_, key_words_));
  if (place == nullptr) return false;
  const uint64_t change = place->load(std::memory_order_relaxed) & ~kStateBits;
  place->store(change | static_cast<uint64_t>(State::kRemoved), std::memory_order_release);
  --entries_;
  return true;
}

std::vector<Map::Entry> Map::Entries() const {
  std::vector<Entry> entries;
  const MutexLock lock(&mu_);
  for (uint64_t i = 0; i < places_; ++i) {
    Cell* place = PlaceAt(i);
    Entry entry;
    if (shape_.kind == MapKind::kArray) {
      const auto index = static_cast<uint32_t>(i);
      entry.key.assign(reinterpret_cast<const char*>(&index), sizeof(index));
    } else {
      if ((place->load(std::memory_order_relaxed) & kStateBits) !=
          static_cast<uint64_t>(State::kTaken)) {
        continue;
      }
      for (uint64_t word = 0; word < key_words_; ++word) {
        const uint64_t bytes = place[1 + word].load(std::memory_order_relaxed);
        entry.key.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
      }
      entry.key.resize(shape_.key_bytes);
    }
    for (uint64_t cell = 0; cell < shape_.value_cells; ++cell) {
      entry.cells.push_back(CellsOf(place)[cell].load(std::memory_order_relaxed));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace warpline::policy::bpf
