// The table of instructions; instruction_set.h says what its columns mean.
#include "ptx/instruction_set.h"

namespace warpline::ptx {
namespace {

constexpr InstructionRow Arithmetic(std::string_view mnemonic, std::string_view operands) {
  return {mnemonic, Family::kArithmetic, operands};
}
constexpr InstructionRow Rounding(std::string_view mnemonic, std::string_view operands) {
  return {mnemonic, Family::kArithmetic, operands, {}, Extent::kNone, true};
}

constexpr InstructionRow kRows[] = {
    // --- From registers to registers.
    Arithmetic("abs", "ds"),
    Rounding("add", "dss"),
    Arithmetic("addc", "dss"),
    Arithmetic("and", "dss"),
    Arithmetic("bfe", "dsss"),
    Arithmetic("bfi", "dssss"),
    Arithmetic("bfind", "ds"),
    Arithmetic("bmsk", "dss"),
    Arithmetic("brev", "ds"),
    Arithmetic("clz", "ds"),
    Arithmetic("cnot", "ds"),
    Arithmetic("copysign", "dss"),
    Arithmetic("cos", "ds"),
    Rounding("div", "dss"),
    Arithmetic("dp2a", "dsss"),
    Arithmetic("dp4a", "dsss"),
    Arithmetic("ex2", "ds"),
    Rounding("fma", "dsss"),
    Arithmetic("fns", "dsss"),
    Arithmetic("lg2", "ds"),
    Arithmetic("lop3", "dsssip?"),
    Rounding("mad", "dsss"),
    Arithmetic("mad24", "dsss"),
    Arithmetic("madc", "dsss"),
    Arithmetic("max", "dss"),
    Arithmetic("min", "dss"),
    Rounding("mul", "dss"),
    Arithmetic("mul24", "dss"),
    Arithmetic("neg", "ds"),
    Arithmetic("not", "ds"),
    Arithmetic("or", "dss"),
    Arithmetic("popc", "ds"),
    Arithmetic("prmt", "dsss"),
    Rounding("rcp", "ds"),
    Arithmetic("rem", "dss"),
    Arithmetic("rsqrt", "ds"),
    Arithmetic("sad", "dsss"),
    Arithmetic("selp", "dssp"),
    Arithmetic("shf", "dsss"),
    Arithmetic("shl", "dss"),
    Arithmetic("shr", "dss"),
    Arithmetic("sin", "ds"),
    Arithmetic("slct", "dsss"),
    Rounding("sqrt", "ds"),
    Rounding("sub", "dss"),
    Arithmetic("subc", "dss"),
    Arithmetic("tanh", "ds"),
    Arithmetic("testp", "ds"),
    Arithmetic("vabsdiff2", "dsss"),
    Arithmetic("vabsdiff4", "dsss"),
    Arithmetic("xor", "dss"),
    {"mov", Family::kMove, "ds"},
    {"setp", Family::kCompare, "dssp?"},
    {"set", Family::kSet, "dssp?"},
    {"cvt", Family::kConvert, "dss?s?"},
    {"cvta", Family::kConvertAddress, "ds"},
    {"isspacep", Family::kTestSpace, "ds"},

    // --- Memory.
    {"ld", Family::kLoad, "dRs?", "<space> <hint> <order> <vector> <type>", Extent::kElements},
    {"ldu", Family::kLoad, "dRs?", "<space> <hint> <order> <vector> <type>", Extent::kElements},
    {"st", Family::kStore, "Wss?", "<space> <hint> <order> <vector> <type>", Extent::kElements},
    {"atom", Family::kAtomic, "dUss?s?", "<space> <hint> <order> <vector> <type> <operation>",
     Extent::kElements},
    {"red", Family::kAtomic, "Uss?", "<space> <hint> <order> <vector> <type> <operation>",
     Extent::kElements},
    {"prefetch", Family::kHint, "N", "<space> <hint> L1 L2 tensormap"},
    {"prefetchu", Family::kHint, "N", "L1"},
    {"applypriority", Family::kHint, "Ni", "<space> <hint>"},
    {"discard", Family::kHint, "Wi", "<space> L2", Extent::kImmediate},

    // --- Copies that run beside the program, and the barriers to which they report.
    {"cp.async", Family::kCopyAsync, "WRis?s?", "<space> <hint>", Extent::kImmediate},
    {"cp.async.commit_group", Family::kCopyAsyncGroup, ""},
    {"cp.async.wait_group", Family::kCopyAsyncGroup, "i"},
    {"cp.async.wait_all", Family::kCopyAsyncGroup, ""},
    {"cp.async.mbarrier.arrive", Family::kCopyAsyncArrive, "U", "<space> noinc b64",
     Extent::kBarrier},
    {"mbarrier.init", Family::kBarrierInit, "Ws", "<space> b64", Extent::kBarrier},
    {"mbarrier.inval", Family::kBarrierEnd, "W", "<space> b64", Extent::kBarrier},
    {"mbarrier.arrive", Family::kBarrierArrive, "d?Us?", "<space> <hint> <order> noComplete b64",
     Extent::kBarrier},
    {"mbarrier.arrive_drop", Family::kBarrierArrive, "d?Us?",
     "<space> <hint> <order> noComplete b64", Extent::kBarrier},
    {"mbarrier.test_wait", Family::kBarrierTest, "dRss?", "<space> <hint> <order> parity b64",
     Extent::kBarrier},
    {"mbarrier.try_wait", Family::kBarrierTest, "dRss?", "<space> <hint> <order> parity b64",
     Extent::kBarrier},
    {"mbarrier.pending_count", Family::kBarrierPending, "ds"},

    // --- Matrices that the threads of a warp hold together.
    {"mma", Family::kMatrixMultiply, "dssss?s?"},
    {"wmma.mma", Family::kWmmaMultiply, "dsss"},
    {"wmma.load", Family::kWmmaLoad, "dRs?", "a b c d row col sync aligned <shape> <space> <type>",
     Extent::kMatrix},
    {"wmma.store", Family::kWmmaStore, "Wss?",
     "a b c d row col sync aligned <shape> <space> <type>", Extent::kMatrix},
    {"ldmatrix", Family::kTileLoad, "dR", "sync aligned m8n8 x1 x2 x4 trans b16 <space>",
     Extent::kTileRow},
    {"stmatrix", Family::kTileStore, "Ws", "sync aligned m8n8 x1 x2 x4 trans b16 <space>",
     Extent::kTileRow},

    // --- Control, barriers, and exchanges between the threads of a warp.
    {"bra", Family::kBranch, "t"},
    {"call", Family::kCall, "l?tl?t?"},
    {"ret", Family::kReturn, ""},
    {"exit", Family::kExit, ""},
    {"trap", Family::kTrap, ""},
    {"brkpt", Family::kTrap, ""},
    {"membar", Family::kFence, ""},
    {"fence", Family::kFence, "N?i?"},
    {"nanosleep", Family::kSleep, "s"},
    {"griddepcontrol", Family::kHint, ""},
    {"pmevent", Family::kHint, "s"},
    {"bar.sync", Family::kBlockBarrier, "ss?"},
    {"bar.arrive", Family::kBlockBarrier, "ss"},
    {"bar.red", Family::kBlockBarrier, "dss?p"},
    {"bar.cta.sync", Family::kBlockBarrier, "ss?"},
    {"bar.cta.arrive", Family::kBlockBarrier, "ss"},
    {"bar.cta.red", Family::kBlockBarrier, "dss?p"},
    {"barrier.sync", Family::kBlockBarrier, "ss?"},
    {"barrier.arrive", Family::kBlockBarrier, "ss"},
    {"barrier.red", Family::kBlockBarrier, "dss?p"},
    {"barrier.cta.sync", Family::kBlockBarrier, "ss?"},
    {"barrier.cta.arrive", Family::kBlockBarrier, "ss"},
    {"barrier.cta.red", Family::kBlockBarrier, "dss?p"},
    {"bar.warp.sync", Family::kWarpBarrier, "s"},
    {"shfl", Family::kShuffle, "dssss?"},
    {"vote", Family::kVote, "dps?"},
    {"match", Family::kMatch, "dss"},
    {"redux", Family::kReduce, "dss"},
    {"activemask", Family::kActiveMask, "d"},
};

}  // namespace

absl::Span<const InstructionRow> InstructionRows() { return kRows; }

}  // namespace warpline::ptx
