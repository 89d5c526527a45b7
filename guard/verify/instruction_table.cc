#include "guard/verify/instruction_table.h"

namespace warpline::guard {
namespace {

constexpr uint8_t kGeneric = SpaceBit(Space::kGeneric);
constexpr uint8_t kGlobal = SpaceBit(Space::kGlobal);
constexpr uint8_t kShared = SpaceBit(Space::kShared);
constexpr uint8_t kLocal = SpaceBit(Space::kLocal);
constexpr uint8_t kParam = SpaceBit(Space::kParam);
constexpr uint8_t kConst = SpaceBit(Space::kConst);

constexpr uint32_t kLoadWords = kSpaceWord | kOrderWord | kCacheWord | kVectorWord | kTypeWord;
constexpr uint32_t kAtomicWords =
    kSpaceWord | kOrderWord | kVectorWord | kTypeWord | kOperationWord;
constexpr uint32_t kMbarrierWords = kSpaceWord | kOrderWord | kMbarrierWord;

constexpr Row Registers(std::string_view mnemonic, uint8_t least, uint8_t most,
                        uint32_t words = kAnyWord) {
  return {mnemonic, Rule::kRegisters, words, least, most, 0, 0, 0, true};
}
// Writes no register.
constexpr Row Silent(std::string_view mnemonic, uint8_t least, uint8_t most, uint32_t words) {
  return {mnemonic, Rule::kRegisters, words, least, most};
}

constexpr Row kRows[] = {
    // --- Memory.
    {"ld", Rule::kMemory, kLoadWords, 2, 2, 1,
     kGeneric | kGlobal | kShared | kLocal | kParam | kConst},
    {"ldu", Rule::kMemory, kSpaceWord | kVectorWord | kTypeWord, 2, 2, 1, kGeneric | kGlobal},
    {"st", Rule::kMemory, kLoadWords, 2, 2, 0, kGeneric | kGlobal | kShared | kLocal | kParam, 0,
     true},
    {"atom", Rule::kMemory, kAtomicWords, 3, 4, 1, kGeneric | kGlobal | kShared, 0, true},
    {"red", Rule::kMemory, kAtomicWords, 2, 2, 0, kGeneric | kGlobal | kShared, 0, true},

    {"cp.async.mbarrier.arrive", Rule::kMemory, kSpaceWord | kMbarrierWord, 1, 1, 0, kShared, 8,
     true},
    Silent("cp.async.commit_group", 0, 0, 0),
    Silent("cp.async.wait_group", 1, 1, 0),
    Silent("cp.async.wait_all", 0, 0, 0),
    Silent("cp.async.bulk.commit_group", 0, 0, 0),
    Silent("cp.async.bulk.wait_group", 1, 1, kWaitWord),
    {"cp.async.bulk", Rule::kMemory, kSpaceWord | kBulkWord, 3, 4, 0, kGlobal | kShared},
    {"cp.async", Rule::kMemory, kSpaceWord | kCacheWord, 3, 4, 0, kGlobal | kShared},

    {"mbarrier.init", Rule::kMemory, kMbarrierWords, 2, 2, 0, kShared, 8, true},
    {"mbarrier.inval", Rule::kMemory, kMbarrierWords, 1, 1, 0, kShared, 8, true},
    {"mbarrier.arrive", Rule::kMemory, kMbarrierWords, 2, 3, 1, kShared, 8, true},
    {"mbarrier.arrive_drop", Rule::kMemory, kMbarrierWords, 2, 3, 1, kShared, 8, true},
    {"mbarrier.test_wait", Rule::kMemory, kMbarrierWords, 3, 3, 1, kShared, 8},
    {"mbarrier.try_wait", Rule::kMemory, kMbarrierWords, 3, 4, 1, kShared, 8},
    {"mbarrier.expect_tx", Rule::kMemory, kMbarrierWords, 2, 2, 0, kShared, 8, true},
    Registers("mbarrier.pending_count", 2, 2, kMbarrierWord),

    {"ldmatrix", Rule::kMemory, kSpaceWord | kTileWord, 2, 2, 1, kShared, 16},
    {"stmatrix", Rule::kMemory, kSpaceWord | kTileWord, 2, 2, 0, kShared, 16, true},
    {"wmma.load", Rule::kMemory, kSpaceWord | kMatrixWord, 2, 3, 1, kGlobal | kShared},
    {"wmma.store", Rule::kMemory, kSpaceWord | kMatrixWord, 2, 3, 0, kGlobal | kShared, 0, true},
    Registers("wmma.mma", 4, 4),

    // --- Control and barriers. Nobody may say .uni, nor .aligned of a barrier: of lanes that part
    // where they were said not to, one could write what another has in a register that ptxas keeps
    // once for all.
    {"bra", Rule::kBranch, 0, 1, 1},
    {"call", Rule::kCall, 0, 1, 3},
    Silent("ret", 0, 0, 0),
    Silent("exit", 0, 0, 0),
    Silent("membar", 0, 0, kFenceWord),
    Silent("fence", 0, 0, kFenceWord),
    Silent("bar.warp.sync", 1, 1, 0),
    Silent("barrier", 1, 4, kBarrierWord),
    Silent("nanosleep", 1, 1, kAnyWord),
    Silent("griddepcontrol", 0, 0, kAnyWord),

    // --- From registers to registers.
    {"mov", Rule::kMove, kAnyWord, 2, 2, 0, 0, 0, true},
    Registers("cvta", 2, 2, kCvtaWord),
    Registers("isspacep", 2, 2, kIsspacepWord),
    Registers("mma", 4, 8),
    Registers("shfl", 4, 5),
    Registers("vote", 2, 3),
    Registers("match", 2, 3),
    Registers("redux", 2, 3),
    Registers("activemask", 1, 1),
    // Its first operand is read as well.
    Silent("wgmma.mma_async", 4, 8, kAnyWord),
    Silent("wgmma.fence", 0, 0, kAnyWord),
    Silent("wgmma.commit_group", 0, 0, kAnyWord),
    Silent("wgmma.wait_group", 1, 1, kAnyWord),
    Registers("movmatrix", 2, 2),
    Registers("abs", 2, 2),
    Registers("add", 3, 3),
    Registers("addc", 3, 3),
    Registers("and", 3, 3),
    Registers("bfe", 4, 4),
    Registers("bfi", 5, 5),
    Registers("bfind", 2, 2),
    Registers("bmsk", 3, 3),
    Registers("brev", 2, 2),
    Registers("clz", 2, 2),
    Registers("cnot", 2, 2),
    Registers("copysign", 3, 3),
    Registers("cos", 2, 2),
    Registers("cvt", 2, 4),
    Registers("div", 3, 3),
    Registers("dp2a", 4, 4),
    Registers("dp4a", 4, 4),
    Registers("ex2", 2, 2),
    Registers("fma", 4, 4),
    Registers("fns", 4, 4),
    Registers("lg2", 2, 2),
    Registers("lop3", 5, 6),
    Registers("mad", 4, 4),
    Registers("mad24", 4, 4),
    Registers("madc", 4, 4),
    Registers("max", 3, 4),
    Registers("min", 3, 4),
    Registers("mul", 3, 3),
    Registers("mul24", 3, 3),
    Registers("neg", 2, 2),
    Registers("not", 2, 2),
    Registers("or", 3, 3),
    Registers("popc", 2, 2),
    Registers("prmt", 4, 4),
    Registers("rcp", 2, 2),
    Registers("rem", 3, 3),
    Registers("rsqrt", 2, 2),
    Registers("sad", 4, 4),
    Registers("selp", 4, 4),
    Registers("set", 3, 4),
    Registers("setp", 3, 4),
    Registers("shf", 4, 4),
    Registers("shl", 3, 3),
    Registers("shr", 3, 3),
    Registers("sin", 2, 2),
    Registers("slct", 4, 4),
    Registers("sqrt", 2, 2),
    Registers("sub", 3, 3),
    Registers("subc", 3, 3),
    Registers("tanh", 2, 2),
    Registers("testp", 2, 2),
    Registers("vabsdiff2", 4, 4),
    Registers("vabsdiff4", 4, 4),
    Registers("xor", 3, 3),
};

}  // namespace

absl::Span<const Row> Rows() { return kRows; }

}  // namespace warpline::guard
