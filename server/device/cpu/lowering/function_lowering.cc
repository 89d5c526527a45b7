#include "server/device/cpu/lowering/function_lowering.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "ptx/printer.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/arithmetic_lowering.h"
#include "server/device/cpu/lowering/async_lowering.h"
#include "server/device/cpu/lowering/comparison_lowering.h"
#include "server/device/cpu/lowering/control_lowering.h"
#include "server/device/cpu/lowering/conversion_lowering.h"
#include "server/device/cpu/lowering/matrix_lowering.h"
#include "server/device/cpu/lowering/memory_lowering.h"
#include "server/device/cpu/lowering/sync_lowering.h"
#include "server/device/cpu/lowering/warpgroup_lowering.h"

namespace warpline::cpu {
namespace {

constexpr uint32_t kMaxFrameBytes = 16u << 20;

}  // namespace

absl::Status FunctionLowering::Run() { return LowerBody() ? absl::OkStatus() : code_.status(); }

uint32_t FunctionLowering::frame_bytes() const {
  return static_cast<uint32_t>(ptx::AlignUp(code_.frame_bytes(), 64));
}

uint32_t FunctionLowering::local_bytes() const {
  return static_cast<uint32_t>(ptx::AlignUp(scopes_.local_bytes(), 16));
}

bool FunctionLowering::LowerBody() {
  if (!scopes_.Start()) return false;
  for (const ptx::Statement& statement : function_.body) {
    if (!LowerStatement(statement)) return false;
    if (code_.frame_bytes() > kMaxFrameBytes) return code_.Unsupported("too many registers");
  }
  // Control that runs off the end returns.
  code_.SetGuard(kNoSlot, false);
  code_.Emit(OpKind::kReturn);
  return scopes_.BindLabels();
}

bool FunctionLowering::LowerStatement(const ptx::Statement& statement) {
  code_.set_line(statement.line.number);
  if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
    return LowerInstruction(*instruction);
  }
  if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
    return scopes_.Declare(*variable);
  }
  if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
    scopes_.PlaceLabel(label->name);
  } else if (std::holds_alternative<ptx::OpenBlock>(statement.node)) {
    scopes_.OpenBlock();
  } else if (std::holds_alternative<ptx::CloseBlock>(statement.node)) {
    scopes_.CloseBlock();
  }
  return true;  // Other statements use pragmas, target lists and prototypes, if at all.
}

bool FunctionLowering::LowerInstruction(const ptx::Instruction& in) {
  uint32_t guard = kNoSlot;
  if (!in.guard.empty()) {
    const Symbol* const symbol = scopes_.Find(in.guard);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister ||
        symbol->width != Width::kPred) {
      return code_.Invalid(absl::StrCat("unknown predicate ", in.guard));
    }
    guard = symbol->slot;
  }
  code_.SetGuard(guard, in.guard_negated);
  ptx::Description what;
  switch (ptx::Describe(in, &what)) {
    case ptx::Verdict::kKnown:
      return LowerKnown(in, what);
    case ptx::Verdict::kUnknown:
      return code_.Unsupported(ptx::Print(in));
    case ptx::Verdict::kWrongOperands:
      return code_.Invalid(absl::StrCat("wrong operands: ", ptx::Print(in)));
  }
  return false;
}

bool FunctionLowering::LowerKnown(const ptx::Instruction& in, const ptx::Description& what) {
  using ptx::Family;
  switch (what.row().family) {
    case Family::kArithmetic:
      return ArithmeticLowering(context_).Compute(in, what);
    case Family::kMove:
      return ArithmeticLowering(context_).Move(in);
    case Family::kCompare:
      return ComparisonLowering(context_).SetPredicate(in);
    case Family::kSet:
      return ComparisonLowering(context_).Set(in);
    case Family::kConvert:
      return ConversionLowering(context_).Convert(in);
    case Family::kConvertAddress:
      return ArithmeticLowering(context_).ConvertAddress(in);
    case Family::kTestSpace:
      return ArithmeticLowering(context_).TestSpace(in);
    case Family::kLoad:
      return MemoryLowering(context_).Load(in, what);
    case Family::kStore:
      return MemoryLowering(context_).Store(in, what);
    case Family::kAtomic:
      return MemoryLowering(context_).Update(in, what);
    case Family::kBranch:
      return ControlLowering(context_).Branch(in);
    case Family::kCall:
      return ControlLowering(context_).Call(in, what);
    case Family::kReturn:
      code_.Emit(OpKind::kReturn);
      return true;
    case Family::kExit:
      code_.Emit(OpKind::kExit);
      return true;
    case Family::kTrap:
      return ControlLowering(context_).Trap();
    case Family::kFence:
      return ControlLowering(context_).Fence(in);
    case Family::kSleep:
      return ControlLowering(context_).Sleep(in);
    case Family::kHint:
    case Family::kCopyAsyncGroup:
    case Family::kBarrierEnd:
      return true;
    case Family::kCopyAsync:
      return AsyncLowering(context_).Copy(in, what);
    case Family::kCopyAsyncArrive:
      return AsyncLowering(context_).ArriveAfterCopies(in, what);
    case Family::kBarrierInit:
      return AsyncLowering(context_).Init(in, what);
    case Family::kBarrierArrive:
      return AsyncLowering(context_).Arrive(in, what);
    case Family::kBarrierTest:
      return AsyncLowering(context_).Test(in, what);
    case Family::kBulkCopy:
    case Family::kBarrierExpect:
      return code_.Unsupported(ptx::Print(in));
    case Family::kWarpgroupMultiply:
      return WarpgroupLowering(context_).Multiply(in);
    case Family::kWarpgroupOrder:
      return WarpgroupLowering(context_).Order(in);
    case Family::kBarrierPending:
      return AsyncLowering(context_).Pending(in);
    case Family::kMatrixMultiply:
      return MatrixLowering(context_).Multiply(in);
    case Family::kWmmaMultiply:
      return MatrixLowering(context_).MultiplyWmma(in);
    case Family::kWmmaLoad:
    case Family::kWmmaStore:
      return MatrixLowering(context_).AccessWmma(in, what.accesses()[0]);
    case Family::kTileLoad:
    case Family::kTileStore:
      return MatrixLowering(context_).AccessTiles(in, what.accesses()[0]);
    case Family::kBlockBarrier:
      return SyncLowering(context_).BlockBarrier(in);
    case Family::kWarpBarrier:
      return SyncLowering(context_).WarpBarrier(in);
    case Family::kShuffle:
      return SyncLowering(context_).Shuffle(in);
    case Family::kVote:
      return SyncLowering(context_).Vote(in);
    case Family::kMatch:
      return SyncLowering(context_).Match(in);
    case Family::kReduce:
      return SyncLowering(context_).Reduce(in);
    case Family::kActiveMask:
      return SyncLowering(context_).ActiveMask(in);
    case Family::kElect:
      return SyncLowering(context_).Elect(in);
    case Family::kTileMove:
      return SyncLowering(context_).MoveTile(in);
    case Family::kCachePolicy:
      return ArithmeticLowering(context_).CachePolicy(in);
  }
  return false;
}

}  // namespace warpline::cpu
