// Maps: the state that programs keep between calls, and that the embedder reads and writes.
//
// A map has a fixed capacity and takes all its memory at once. A value is an array of cells of 8
// bytes, each of which is read and written as a relaxed atomic: every cell is some value that was
// written to it, and two cells are not read at one time.
#ifndef WARPLINE_POLICY_BPF_MAP_H_
#define WARPLINE_POLICY_BPF_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"

namespace warpline::policy::bpf {

enum class MapKind : uint32_t {
  kArray =
      1,      // The key is a uint32_t below the capacity. All entries are there and begin as zeros.
  kHash = 2,  // The key is a string of `key_bytes`. Entries are added, up to the capacity.
};

inline constexpr uint32_t kMostKeyBytes = 64;
inline constexpr uint32_t kMostValueCells = 64;
inline constexpr uint64_t kMostEntries = uint64_t{1} << 20;

struct MapShape {
  std::string name;
  MapKind kind = MapKind::kArray;
  uint32_t key_bytes = 0;
  uint32_t value_cells = 0;
  uint64_t capacity = 0;

  friend bool operator==(const MapShape&, const MapShape&) = default;
};

// INVALID_ARGUMENT unless a map of this shape can be made.
absl::Status CheckShape(const MapShape& shape);

// The memory that the values and keys of a map of a checked shape take.
uint64_t MapBytes(const MapShape& shape);

// Thread-safe. Look-ups take no lock; adding and removing entries do, and are rare.
//
// Cells are valid for as long as the map. Those of an entry that was removed may become another
// entry's, so that a program which runs meanwhile may count something for the wrong key, once.
class Map {
 public:
  using Cell = std::atomic<uint64_t>;

  // The shape has been checked.
  explicit Map(MapShape shape);
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;

  const MapShape& shape() const { return shape_; }

  // The cells of the entry with the key, which has shape().key_bytes; null where there is none.
  Cell* Find(const void* key) const;

  // Adds an entry of zeros if there is none. Null if a hash is full, or the index of an array is
  // not below its capacity. A hash is also full for a key when the kMostProbes places where it may
  // lie are taken, which at most half of all places being taken makes rare.
  Cell* FindOrAdd(const void* key) ABSL_LOCKS_EXCLUDED(mu_);

  // Removes the entry from a hash; sets that of an array to zeros. False if there is none.
  bool Remove(const void* key) ABSL_LOCKS_EXCLUDED(mu_);

  struct Entry {
    std::string key;
    std::vector<uint64_t> cells;
  };
  // All entries, for operators to see. Takes as much time as the map is large.
  std::vector<Entry> Entries() const ABSL_LOCKS_EXCLUDED(mu_);

  static constexpr uint64_t kMostProbes = 128;

 private:
  struct Key;
  enum class State : uint64_t;

  Cell* PlaceAt(uint64_t index) const { return &words_[index * stride_]; }
  Cell* CellsOf(Cell* place) const { return place + head_; }
  bool Holds(Cell* place, const Key& key) const;
  Cell* FindPlace(const Key& key) const;
  Cell* FreePlace(const Key& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const MapShape shape_;
  const uint64_t key_words_;
  const uint64_t head_;    // Words of a place before its cells: for a hash the state and the key.
  const uint64_t stride_;  // Words of a place.
  const uint64_t places_;  // Of a hash a power of two, and twice the capacity at least.
  const std::unique_ptr<Cell[]> words_;

  mutable Mutex mu_;  // Guards which places of a hash are taken.
  uint64_t entries_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_MAP_H_
