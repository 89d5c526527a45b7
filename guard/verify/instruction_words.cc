// The words that modify instructions. A word that is not here is allowed only where a row has
// kAnyWord.
#include "guard/verify/instruction_table.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kAllTypes = kTypeWord | kMatrixWord;
constexpr uint32_t kScope = kOrderWord | kFenceWord;

constexpr Word kWords[] = {
    {"global", kSpaceWord | kFenceWord | kCvtaWord | kIsspacepWord, Space::kGlobal},
    {"shared", kSpaceWord | kCvtaWord | kIsspacepWord, Space::kShared},
    {"shared::cluster", kBulkWord},
    {"mbarrier::complete_tx::bytes", kBulkWord},
    {"bulk_group", kBulkWord},
    {"read", kWaitWord},
    {"shared::cta", kSpaceWord | kFenceWord | kIsspacepWord, Space::kShared},
    {"local", kSpaceWord | kCvtaWord | kIsspacepWord, Space::kLocal},
    {"param", kSpaceWord | kIsspacepWord, Space::kParam},
    {"const", kSpaceWord | kIsspacepWord, Space::kConst},
    {"to", kCvtaWord},

    // --- Order and scope.
    {"weak", kOrderWord},
    {"volatile", kOrderWord},
    {"relaxed", kOrderWord},
    {"acquire", kScope},
    {"release", kScope},
    {"acq_rel", kScope},
    {"sc", kFenceWord},
    {"cta", kScope | kBarrierWord},
    {"cluster", kScope},
    {"gpu", kScope},
    {"gl", kFenceWord},
    {"sys", kScope},
    {"mbarrier_init", kFenceWord},
    {"proxy", kFenceWord},
    {"alias", kFenceWord},
    {"async", kFenceWord},

    // --- Caches.
    {"nc", kCacheWord},
    {"ca", kCacheWord},
    {"cg", kCacheWord},
    {"cs", kCacheWord},
    {"lu", kCacheWord},
    {"cv", kCacheWord},
    {"wb", kCacheWord},
    {"wt", kCacheWord},
    {"L1::evict_normal", kCacheWord},
    {"L1::evict_unchanged", kCacheWord},
    {"L1::evict_first", kCacheWord},
    {"L1::evict_last", kCacheWord},
    {"L1::no_allocate", kCacheWord},
    {"L2::evict_normal", kCacheWord},
    {"L2::evict_first", kCacheWord},
    {"L2::evict_last", kCacheWord},
    {"L2::64B", kCacheWord},
    {"L2::128B", kCacheWord},
    {"L2::256B", kCacheWord},

    // --- Vectors and types.
    {"v2", kVectorWord, Space::kGeneric, 2},
    {"v4", kVectorWord, Space::kGeneric, 4},
    {"v8", kVectorWord, Space::kGeneric, 8},
    {"b8", kTypeWord, Space::kGeneric, 1},
    {"u8", kAllTypes, Space::kGeneric, 1},
    {"s8", kAllTypes, Space::kGeneric, 1},
    {"b16", kTypeWord | kTileWord, Space::kGeneric, 2},
    {"u16", kTypeWord, Space::kGeneric, 2},
    {"s16", kTypeWord, Space::kGeneric, 2},
    {"f16", kAllTypes, Space::kGeneric, 2},
    {"bf16", kAllTypes, Space::kGeneric, 2},
    {"b32", kTypeWord, Space::kGeneric, 4},
    {"u32", kTypeWord | kCvtaWord | kBarrierWord, Space::kGeneric, 4},
    {"s32", kAllTypes, Space::kGeneric, 4},
    {"f32", kAllTypes, Space::kGeneric, 4},
    {"f16x2", kTypeWord, Space::kGeneric, 4},
    {"bf16x2", kTypeWord, Space::kGeneric, 4},
    {"b64", kTypeWord | kMbarrierWord, Space::kGeneric, 8},
    {"u64", kTypeWord | kCvtaWord, Space::kGeneric, 8},
    {"s64", kTypeWord, Space::kGeneric, 8},
    {"f64", kAllTypes, Space::kGeneric, 8},
    {"b128", kTypeWord, Space::kGeneric, 16},
    {"tf32", kMatrixWord},
    {"u4", kMatrixWord},
    {"s4", kMatrixWord},
    {"b1", kMatrixWord},

    // --- Operations.
    {"and", kOperationWord | kBarrierWord},
    {"or", kOperationWord | kBarrierWord},
    {"xor", kOperationWord},
    {"cas", kOperationWord},
    {"exch", kOperationWord},
    {"add", kOperationWord},
    {"inc", kOperationWord},
    {"dec", kOperationWord},
    {"min", kOperationWord},
    {"max", kOperationWord},
    {"noftz", kOperationWord},
    {"noComplete", kMbarrierWord},
    {"parity", kMbarrierWord},
    {"noinc", kMbarrierWord},
    {"expect_tx", kMbarrierWord},

    // --- Matrices and barriers.
    {"sync", kMatrixWord | kTileWord | kBarrierWord},
    {"aligned", kMatrixWord | kTileWord},
    {"arrive", kBarrierWord},
    {"red", kBarrierWord},
    {"popc", kBarrierWord},
    {"pred", kBarrierWord},
    {"m8n8", kTileWord},
    {"x1", kTileWord},
    {"x2", kTileWord},
    {"x4", kTileWord},
    {"trans", kTileWord},
    {"a", kMatrixWord},
    {"b", kMatrixWord},
    {"c", kMatrixWord},
    {"d", kMatrixWord},
    {"row", kMatrixWord},
    {"col", kMatrixWord},
    {"m16n16k16", kMatrixWord},
    {"m8n32k16", kMatrixWord},
    {"m32n8k16", kMatrixWord},
    {"m16n16k8", kMatrixWord},
    {"m8n8k4", kMatrixWord},
    {"m8n8k32", kMatrixWord},
    {"m8n8k128", kMatrixWord},
};

}  // namespace

absl::Span<const Word> AllWords() { return kWords; }

}  // namespace warpline::guard
