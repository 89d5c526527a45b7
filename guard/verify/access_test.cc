// Fences, and the accesses that they allow.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

TEST(Verify, AcceptsEveryFence) {
  for (const Fenced& fenced : AllFenced()) ExpectAccepted(Module(fenced.All()), fenced.policy);
}

TEST(Verify, RefusesAFenceWithoutOneOfItsLines) {
  for (const Fenced& fenced : AllFenced()) {
    for (size_t i = 0; i < fenced.fence.size(); ++i) {
      Statements fence = fenced.fence;
      fence.erase(fence.begin() + static_cast<ptrdiff_t>(i));
      ExpectRefused(Module(Joined({fence, {fenced.access}})), fenced.policy);
    }
  }
}

TEST(Verify, RefusesALabelWithinAFence) {
  for (const Fenced& fenced : AllFenced()) {
    Statements all = fenced.All();
    all.insert(all.end() - 1, "L:");
    ExpectRefused(Module(all), fenced.policy);
    all = fenced.All();
    all.insert(all.begin() + 1, "L:");
    ExpectRefused(Module(all), fenced.policy);
  }
}

TEST(Verify, RefusesAPredicateInAFence) {
  for (const Fenced& fenced : AllFenced()) {
    for (size_t i = 0; i < fenced.fence.size(); ++i) {
      Statements all = fenced.All();
      all[i] = "@%p1 " + all[i];
      ExpectRefused(Module(all), fenced.policy);
    }
  }
}

TEST(Verify, RefusesAFenceOfAnotherMode) {
  for (const Fenced& fenced : AllFenced()) {
    if (fenced.policy.hardened) ExpectRefused(Module(fenced.All()), kPlain);
    if (!fenced.policy.hardened && fenced.access.find(".v4") == std::string::npos) {
      ExpectRefused(Module(fenced.All()), kHardened);
    }
  }
}

TEST(Verify, AcceptsTenantStatementsWithinAFence) {
  for (const Fenced& fenced : AllFenced()) {
    Statements all;
    for (const std::string& line : fenced.fence) {
      all.push_back(line);
      // The check of a warp is a run without others in between.
      if (absl::c_linear_search(kWholeWarp, line)) continue;
      all.push_back("add.s64 %rd1, wlg_globals, 16");
    }
    all.push_back(fenced.access);
    ExpectAccepted(Module(all), fenced.policy);
  }
}

TEST(Verify, AcceptsStatementsWithoutFences) {
  const Statements accepted = {
      "mov.u32 %r1, %tid.x",
      "mov.u64 %rd1, %clock64",
      "mov.b64 %rd1, sm+-100000",
      "mov.u32 %r1, dyn",
      "mov.b64 %rd1, q+8",
      "mov.b64 %rd1, wlg_locals+16",
      "mov.b64 {%r1, _}, %rd1",
      "mov.b64 %rd1, {%r1, %r2}",
      "add.s64 %rd1, wlg_globals, 9223372036854775807",
      "add.s64 %rd1, %rd2, -9223372036854775808",
      "add.f32 %f1, %f2, 0f3F800000",
      "fma.rn.f64 %fd1, %fd2, 0d3FF0000000000000, %fd3",
      "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3",
      "@!%p1 lop3.or.b32 %r1|%p1, %r1, %r2, %r3, 234, %p2",
      "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1",
      "cvta.to.global.u64 %rd1, %rd2",
      "cvta.local.u64 %rd1, wlg_local",
      "isspacep.global %p1, %rd1",
      "membar.gl",
      "fence.proxy.async.global",
      "fence.acq_rel.cluster",
      "cp.async.wait_group 1",
      "cp.async.commit_group",
      "bar.warp.sync -1",
      "activemask.b32 wlg_t",
      "setp.ne.s32 wlg_ps, wlg_t, -1",
      "@wlg_ps exit",
      "barrier.sync 0",
      "barrier.red.popc.u32 %r1, 1, 32, !%p1",
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [sm+16]",
      absl::StrCat("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, ",
                   "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4}"),
      "vote.sync.ballot.b32 %r1, %p1, -1",
      "bra L",
      "@%p1 bra L",
      "ret",
      "exit",
      "ld.param.b64 %rd1, [p]",
      "ld.param.v2.b32 {%r1, %r2}, [q+8]",
      "st.param.b32 [a], %r1",
      "st.param.b64 [b+8], %rd1",
      "ld.const.b32 %r1, [wlg_const+92]",
      "ld.local.b32 %r1, [wlg_locals+60]",
      "st.local.b32 [wlg_local], %r1",
      "ld.shared.b32 %r1, [sm+60]",
      ".pragma \"nounroll\"",
  };
  Statements all = accepted;
  all.insert(all.begin(), "L:");
  ExpectAccepted(Module(all), kPlain);
  ExpectAccepted(Module(all), kHardened);
}

TEST(Verify, AcceptsAnySharedAddressUnlessHardened) {
  const Statements accepted = {
      "ld.shared.b32 %r1, [%r2+-4]",
      "st.shared.b64 [%rd2+100000], %rd1",
      "atom.shared::cta.cas.b32 %r1, [dyn+4], 1, 2",
      "red.shared.add.u32 [sm+1024], 1",
      "mbarrier.init.shared.b64 [sm+8], 1",
      "mbarrier.arrive.shared.b64 _, [sm], 1",
      "mbarrier.try_wait.parity.shared.b64 %p1, [%rd1], %r1",
      "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd1",
      "mbarrier.arrive_drop.release.cta.shared.b64 %rd1, [%r1]",
      "mbarrier.inval.shared.b64 [%rd1]",
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]",
  };
  ExpectAccepted(Module(accepted), kPlain);
  for (const std::string& statement : accepted) ExpectRefused(Module({statement}), kHardened);
  const Statements of_a_warp = {
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r1}, [%rd1]",
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2}",
      "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], "
      "{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, 16",
  };
  ExpectAccepted(Module(Joined({kWholeWarp, of_a_warp})), kPlain);
  for (const std::string& statement : of_a_warp) {
    ExpectRefused(Module(Joined({kWholeWarp, {statement}})), kHardened);
  }
}

// ptxas takes what is behind an instruction of a warp for the way of all its lanes.
TEST(Verify, AcceptsInstructionsOfAWarpOnlyWhereItIsWhole) {
  const std::string tile = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [sm]";
  ExpectAccepted(Module(Joined({kWholeWarp, {"add.s32 %r1, %r2, 1", tile, tile}})), kPlain);
  for (size_t i = 0; i < kWholeWarp.size(); ++i) {
    Statements check = kWholeWarp;
    check.erase(check.begin() + static_cast<std::ptrdiff_t>(i));
    ExpectRefused(Module(Joined({check, {tile}})), kPlain);
    check = kWholeWarp;
    check.insert(check.begin() + static_cast<std::ptrdiff_t>(i) + 1, "add.s32 %r1, %r2, 1");
    if (i + 1 < kWholeWarp.size()) ExpectRefused(Module(Joined({check, {tile}})), kPlain);
  }
  for (const char* const between : {"L:", "@%p1 bra L", "@%p1 exit", "@%p1 ret"}) {
    const Statements label = between[0] == 'L' ? Statements() : Statements{"L:"};
    ExpectRefused(Module(Joined({kWholeWarp, {between, tile}, label})), kPlain);
  }
  for (const char* const predicate : {"@%p1 ", "@!%p1 ", "@wlg_ps ", "@!wlg_ps "}) {
    const Statements split = {"isspacep.shared wlg_ps, %rd1", predicate + tile};
    ExpectRefused(Module(Joined({kWholeWarp, split})), kPlain);
    ExpectRefused(Module(Joined({kWholeWarp, split})), kHardened);
  }
  // Barriers that say .aligned are for whole warps too; those that do not are not.
  ExpectRefused(Module(Joined({kWholeWarp, {"bar.sync 0"}})), kPlain);
  ExpectRefused(Module(Joined({kWholeWarp, {"barrier.sync.aligned 0"}})), kPlain);
  ExpectAccepted(Module({"barrier.sync 0", "bar.warp.sync 3"}), kPlain);
}

// Before sm_90 a barrier that does not say where it is may be anywhere.
TEST(Verify, BarriersAndTilesSayShared) {
  for (const char* refused :
       {"mbarrier.init.b64 [%rd1], 1", "mbarrier.inval.b64 [%rd1]",
        "mbarrier.arrive.b64 %rd2, [%rd1]", "mbarrier.arrive_drop.b64 %rd2, [%rd1]",
        "mbarrier.test_wait.b64 %p1, [%rd1], %rd2", "cp.async.mbarrier.arrive.b64 [%rd1]",
        "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd1]",
        "stmatrix.sync.aligned.m8n8.x1.b16 [%rd1], {%r1}"}) {
    ExpectRefused(Module({refused}), kPlain);
    ExpectRefused(Module({refused}), kHardened);
  }
}

// The size of a copy in a register: all of the bytes or none.
TEST(Verify, CopiesOfAPartCopyAllOrNothing) {
  const std::string copy = "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, wlg_t";
  const Statements fences = Joined({kSharedFence4, kAlignedArena4});
  const auto with = [&](Statements steps) {
    return Module(Joined({fences, std::move(steps), {copy}}));
  };
  ExpectAccepted(with({"and.b32 wlg_t, %r1, 4"}), kHardened);
  ExpectAccepted(with({"and.b32 wlg_t, %r1, 3", "setp.ne.s32 wlg_ps, wlg_t, 0", "@wlg_ps exit",
                       "and.b32 wlg_t, %r1, 4"}),
                 kHardened);
  ExpectRefused(with({}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 3"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 8"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 64"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 4", "L1:"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 4", "sub.s32 wlg_t, wlg_smem, 4"}), kHardened);
  // What was kept of a size bounds no address.
  ExpectRefused(
      Module(Joined({{"mov.b32 wlg_s, %r1", "and.b32 wlg_t, %r1, 4", "min.u32 wlg_s, wlg_s, wlg_t",
                      "and.b32 wlg_s, wlg_s, -4", "ld.shared.b32 %r2, [wlg_s]"}})),
      kHardened);
}

// The same under the copy's predicate ends the thread less often.
TEST(Verify, ACopyOfAPartMayHaveAPredicate) {
  const auto with = [&](const char* test) {
    return Module(Joined({kSharedFence4,
                          kAlignedArena4,
                          {"and.b32 wlg_t, %r1, 3", test, "@wlg_ps exit", "and.b32 wlg_t, %r1, 4",
                           "@!%p1 cp.async.ca.shared.global [wlg_s], [wlg_at], 4, wlg_t"}}));
  };
  ExpectAccepted(with("setp.ne.and.s32 wlg_ps, wlg_t, 0, !%p1"), kHardened);
  ExpectRefused(with("setp.ne.or.s32 wlg_ps, wlg_t, 0, !%p1"), kHardened);
  ExpectRefused(with("setp.ne.and.s32 wlg_ps, wlg_t, 0, %r1"), kHardened);
  ExpectRefused(Module({"mov.b32 wlg_t, 5", "setp.ne.and.s32 wlg_ps, wlg_t, 0, %p1"}), kHardened);
}

// How many bytes a copy moves is bounded, and between which spaces it does is written out.
TEST(Verify, RefusesBulkCopiesThatAreNotBounded) {
  const std::string in = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes ";
  ExpectAccepted(Module(Joined({kArena, {in + "[sm], [wlg_at], 1048576, [sm]"}})), kPlain);
  for (const std::string& copy : {
           in + "[sm], [wlg_at], 1048577, [sm]",
           in + "[sm], [wlg_at], -16, [sm]",
           in + "[sm], [wlg_at], %r1, [sm]",
           in + "[sm], [wlg_at], wlg_stride, [sm]",
           in + "[sm], [wlg_at+16], 16, [sm]",
           in + "[sm], [%rd1], 16, [sm]",
           in + "[sm], [wlg_at], 16, [wlg_const]",
           in + "[sm], [wlg_at], 16",
           std::string("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 16"),
           std::string("cp.async.bulk.global.shared::cta.bulk_group [wlg_at], [sm], 16, %rd1"),
           std::string("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                       "[sm], [sm], 16, [sm]"),
           std::string("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes "
                       "[sm], [wlg_at], 16, [sm]"),
           std::string("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [wlg_at], [sm], "
                       "16"),
       }) {
    ExpectRefused(Module(Joined({kArena, {copy}})), kPlain);
  }
}

// Descriptors lead to the block's own shared memory, or the context ends.
TEST(Verify, MatricesThatDescriptorsNameAreForWholeWarpsThatMayFault) {
  const Statements multiply = {
      "wgmma.fence.sync.aligned",
      absl::StrCat("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, ",
                   "%rd1, %rd2, %p1, 1, 1, 0, 0"),
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, %p1",
      "wgmma.commit_group.sync.aligned",
      "wgmma.wait_group.sync.aligned 0",
  };
  ExpectAccepted(Module(Joined({kWholeWarp, multiply})), kPlain);
  for (const std::string& statement : multiply) {
    ExpectRefused(Module({statement}), kPlain);
    ExpectRefused(Module(Joined({kWholeWarp, {statement}})), kHardened);
  }
  for (const char* const results : {"{%f1, %f2, %f3, wlg_t}", "wlg_at", "[wlg_at]"}) {
    ExpectRefused(Module(Joined({kWholeWarp,
                                 {absl::StrCat("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 ",
                                               results, ", %rd1, %rd2, %p1, 1, 1, 0, 0")}})),
                  kPlain);
  }
}

// Others end the context.
TEST(Verify, HardenedBarriersAreThoseThatABlockHas) {
  for (const char* const barrier :
       {"barrier.sync 0", "barrier.sync 15", "barrier.sync 1, 32", "barrier.cta.sync 1, 1024",
        "barrier.arrive 3, 96", "barrier.red.popc.u32 %r1, 0, %p1",
        "barrier.red.or.pred %p1, 7, 64, !%p2", "@%p1 barrier.sync 0"}) {
    ExpectAccepted(Module({barrier}), kHardened);
  }
  for (const char* const barrier :
       {"barrier.sync %r1", "barrier.sync 1, %r1", "barrier.sync %r1, 32", "barrier.arrive %r1, 32",
        "barrier.arrive 1, %r1", "barrier.red.popc.u32 %r1, %r2, %p1",
        "barrier.red.popc.u32 %r1, 0, %r2, %p1"}) {
    ExpectAccepted(Module({barrier}), kPlain);
    ExpectRefused(Module({barrier}), kHardened);
  }
  for (const char* const barrier :
       {"barrier.sync 16", "barrier.sync -1", "barrier.sync 1, 0", "barrier.sync 1, 16",
        "barrier.sync 1, 33", "barrier.sync 1, 1056", "barrier.arrive 1, 4096",
        "barrier.sync 1, -32", "barrier.sync 1, 32, 32", "barrier.sync %tid.x",
        "barrier.red.popc.u32 %r1, 16, %p1", "barrier.red.popc.u32 %r1, 0, 48, %p1",
        "barrier.red.popc.u32 0, %p1", "barrier.sync 0f00000000", "barrier.sync _"}) {
    ExpectRefused(Module({barrier}), kHardened);
  }
}

TEST(Verify, AcceptsSeveralAccessesBehindOneFence) {
  ExpectAccepted(Module(Joined({kArena,
                                {"ld.global.b32 %r1, [wlg_at]", "mov.u64 %rd1, 0", "@%p1 bra L",
                                 "st.global.b64 [wlg_at+8], wlg_globals",
                                 "atom.global.exch.b64 %rd2, [wlg_at+16], wlg_consts", "L:"}})),
                 kPlain);
}

TEST(Verify, AcceptsTheOtherWaysToASharedFence) {
  for (const char* first : {"mov.b32 wlg_s, %r1", "mov.b32 wlg_s, dyn+4", "mov.b32 wlg_s, sm",
                            "cvt.u32.u64 wlg_s, %rd1"}) {
    Statements all = Joined({kSharedFence4, {"ld.shared.b32 %r1, [wlg_s]"}});
    all[0] = first;
    ExpectAccepted(Module(all), kHardened);
  }
  Statements wide = Joined({{"cvt.u32.u64 wlg_s, %rd1"}, kSharedFence4});
  wide[1] = "add.s32 wlg_s, wlg_s, -8";
  wide.push_back("st.shared.b16 [wlg_s], %h1");
  ExpectAccepted(Module(wide), kHardened);
  Statements generic = Joined({{"cvta.to.shared.u64 wlg_x, %rd1"}, kSharedFence4});
  generic[1] = "cvt.u32.u64 wlg_s, wlg_x";
  generic.push_back("ld.shared.b32 %r1, [wlg_s]");
  ExpectAccepted(Module(generic), kHardened);
}

TEST(Verify, AFenceForSeveralAccessesToSharedMemoryIsForItsBytes) {
  const auto with = [](const std::string& access) {
    return Module(Joined({kSharedGroup, {access}}));
  };
  for (const char* const inside :
       {"ld.shared.b64 %rd1, [wlg_g0]", "ld.shared.b64 %rd1, [wlg_g0+16]",
        "ld.shared.b32 %r1, [wlg_g0+20]", "atom.shared.add.u32 %r1, [wlg_g0+4], 1",
        "@%p1 st.shared.b16 [wlg_g0+22], %h1"}) {
    ExpectAccepted(with(inside), kHardened);
    ExpectRefused(Module({inside}), kHardened);
  }
  for (const char* const outside :
       {"ld.shared.b64 %rd1, [wlg_g0+24]", "ld.shared.b64 %rd1, [wlg_g0+20]",
        "ld.shared.b64 %rd1, [wlg_g0+12]", "ld.shared.b32 %r1, [wlg_g0+24]",
        "ld.shared.b32 %r1, [wlg_g0+-4]", "ld.shared.b32 %r1, [wlg_g0+2]",
        "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [wlg_g0]", "ld.shared.b32 %r1, [wlg_g1]",
        "ld.global.b32 %r1, [wlg_g0]", "ld.b32 %r1, [wlg_g0]", "ld.shared.b32 %r1, [wlg_s]"}) {
    ExpectRefused(with(outside), kHardened);
  }
  // The next ones have registers of their own, as long as no label stands between.
  const std::string last = "ld.shared.b64 %rd1, [wlg_g0+16]";
  ExpectAccepted(Module(Joined({kSharedGroup, kSharedFence4, kAlignedArena4, {last}})), kHardened);
  ExpectRefused(Module(Joined({kSharedGroup, {"L:", last}})), kHardened);
  for (const char* const step :
       {"add.s32 wlg_g0, wlg_g0, 8", "mov.b32 wlg_g0, %r1", "cvt.u32.u64 wlg_g0, %rd1"}) {
    ExpectRefused(Module(Joined({kSharedGroup, {step, last}})), kHardened);
  }
  for (const char* const step : {"mov.b32 wlg_g4, %r1", "min.u32 wlg_g0, wlg_g1, wlg_t",
                                 "and.b32 wlg_g0, wlg_g1, -8", "mov.b32 wlg_g0, sm"}) {
    ExpectRefused(Module(Joined({{"mov.b32 wlg_g1, %r1"}, kSharedGroup, {step}})), kHardened);
  }
  // There are surely so many bytes of shared memory, and no more.
  const auto span = [](const char* number) {
    return Module({"mov.b32 wlg_g0, %r1", absl::StrCat("sub.s32 wlg_t, wlg_smem, ", number),
                   "min.u32 wlg_g0, wlg_g0, wlg_t", "and.b32 wlg_g0, wlg_g0, -4",
                   "ld.shared.b32 %r1, [wlg_g0+1020]"});
  };
  ExpectAccepted(span("1024"), kHardened);
  ExpectRefused(span("1025"), kHardened);
  ExpectRefused(span("1020"), kHardened);
  ExpectRefused(span("0"), kHardened);
  ExpectRefused(span("-4"), kHardened);
}

// What surely is a multiple of the access needs no mask.
TEST(Verify, FollowsWhatRegistersAreMultiplesOf) {
  const auto fenced = [](const Statements& before, const std::string& first) {
    return Module(Joined({before,
                          {first, "sub.s32 wlg_t, wlg_smem, 4", "min.u32 wlg_s, wlg_s, wlg_t",
                           "ld.shared.b32 %r2, [wlg_s]"}}));
  };
  const auto of = [&](const Statements& before) { return fenced(before, "mov.b32 wlg_s, %r1"); };
  const std::string shift = "shl.b32 %r1, %r3, 2";
  for (const Statements& before : {
           Statements{shift},
           Statements{"and.b32 %r1, %r3, 8064"},
           Statements{"and.b32 %r1, %r3, -4"},
           Statements{"mov.u32 %r1, sm"},
           Statements{"mov.u32 %r1, sm+8"},
           Statements{"mov.u32 %r4, sm", shift, "add.s32 %r1, %r4, %r1"},
           Statements{shift, "add.s32 %r1, %r1, -12"},
           Statements{shift, "sub.s32 %r1, 16, %r1"},
           Statements{shift, "or.b32 %r1, %r1, 4"},
           Statements{shift, "mov.b32 %r4, %r1", "mov.b32 %r1, %r4"},
           Statements{"shl.b32 %r1, %r3, 40"},
       }) {
    ExpectAccepted(of(before), kHardened);
  }
  for (const Statements& before : {
           Statements{"shl.b32 %r1, %r3, 1"},
           Statements{"shl.b32 %r1, %r3, %r4"},
           Statements{"shl.b32 %r1, %r3, -1"},
           Statements{"@%p1 shl.b32 %r1, %r3, 2"},
           Statements{"shr.u32 %r1, %r3, 2"},
           Statements{"and.b32 %r1, %r3, 8062"},
           Statements{"mov.u32 %r1, sm+2"},
           Statements{"mov.u32 %r1, %laneid"},
           Statements{"mov.u32 %r1, %tid.x"},
           Statements{shift, "add.s32 %r1, %r1, 2"},
           Statements{shift, "add.s32 %r1, %r1, %r3"},
           Statements{shift, "xor.b32 %r1, %r1, 1"},
           Statements{shift, "add.sat.s32 %r1, %r1, 4"},
           Statements{shift, "mul.hi.u32 %r1, %r1, 4"},
           Statements{shift, "mov.b64 {%r1, %r4}, %rd1"},
           Statements{shift, "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1"},
           Statements{shift, "ld.param.b32 %r1, [n]"},
           Statements{shift, "@%p1 mov.b32 %r1, %r3"},
           Statements{shift, "L:"},
           Statements{"mov.u32 %r1, word", "shr.u32 %r1, %r1, 1"},
       }) {
    ExpectRefused(of(before), kHardened);
  }
  ExpectAccepted(fenced({shift}, "add.s32 wlg_s, %r1, 8"), kHardened);
  ExpectRefused(fenced({shift}, "add.s32 wlg_s, %r1, 2"), kHardened);
  ExpectAccepted(fenced({}, "mov.b32 wlg_s, sm+4"), kHardened);
  ExpectRefused(fenced({}, "mov.b32 wlg_s, sm+2"), kHardened);
  // Nor may the bytes that it is for end elsewhere than at a multiple.
  const auto group = [&](const char* span) {
    return Module({shift, "mov.b32 wlg_g0, %r1", absl::StrCat("sub.s32 wlg_t, wlg_smem, ", span),
                   "min.u32 wlg_g0, wlg_g0, wlg_t", "ld.shared.b32 %r2, [wlg_g0+4]"});
  };
  ExpectAccepted(group("8"), kHardened);
  ExpectRefused(group("10"), kHardened);
}

TEST(Verify, AcceptsASumBeforeAFence) {
  Statements all = Joined({{"add.s64 wlg_x, %rd1, -9223372036854775808"},
                           kArena,
                           {"st.global.b32 [wlg_at], 0f3F800000"}});
  all[1] = "mov.b64 {wlg_lo, wlg_hi}, wlg_x";
  ExpectAccepted(Module(all), kPlain);
  all =
      Joined({{"cvt.u64.u32 wlg_x, %r1"}, Window("wlg_local", 60), {"ld.local.b32 %r1, [wlg_at]"}});
  all[1] = "sub.s64 wlg_off, wlg_x, wlg_local";
  ExpectAccepted(Module(all), kPlain);
}

TEST(Verify, ALocalLegIsThereExactlyIfTheModuleHasLocals) {
  const Statements without = Joined({kArena, kSharedLeg, {"ld.b32 %r1, [wlg_at]"}});
  ExpectAccepted(WithoutLocals(without), kPlain);
  ExpectRefused(Module(without), kPlain);
  ExpectRefused(WithoutLocals(Joined({kArena, kSharedLeg, kLocalLeg4, {"ld.b32 %r1, [wlg_at]"}})),
                kPlain);
}

TEST(Verify, AFenceIsForItsNumberOfBytes) {
  const Statements generic = Joined({kArena, kSharedLeg, kLocalLeg4});
  ExpectAccepted(Module(Joined({generic, {"ld.b16 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({generic, {"ld.b64 %rd1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", 60), {"ld.local.b64 %rd1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_params", 21), {"ld.param.b64 %rd1, [wlg_at]"}})),
                kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", 64), {"ld.local.b8 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", -4), {"ld.local.b8 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({kAlignedArena4, {"ld.global.b64 %rd1, [wlg_at]"}})), kHardened);
  ExpectRefused(Module(Joined({kAlignedArena4, {"ld.global.b32 %r1, [wlg_at+2]"}})), kHardened);
  ExpectAccepted(Module(Joined({kAlignedArena4, {"ld.global.b16 %h1, [wlg_at+2]"}})), kHardened);
  ExpectRefused(Module(Joined({kSharedFence4, {"ld.shared.b64 %rd1, [wlg_s]"}})), kHardened);
}

// Each case has an access behind a good arena fence, local fence or neither.
TEST(Verify, RefusesAccesses) {
  const Statements arena = kArena;
  const Statements local = Window("wlg_local", 60);
  const Statements parameter = Window("wlg_params", 24);
  const Statements constant = Window("wlg_consts", 92);
  const struct {
    Statements fence;
    const char* access;
  } cases[] = {
      {arena, "ld.global.b32 %r1, [%rd1]"},
      {arena, "ld.global.b32 %r1, [wlg_at+8388609]"},
      {arena, "ld.global.b32 %r1, [wlg_at+-8388609]"},
      {arena, "ld.global.b32 %r1, [wlg_at+1099511627776]"},
      {arena, "ld.global.b32 %r1, [wlg_at+9223372036854775807]"},
      {arena, "ld.global.b32 %r1, [wlg_at+-9223372036854775808]"},
      {arena, "ld.global.b32 %r1, [wlg_at+9223372036854775808]"},
      {arena, "ld.global.b32 %r1, [wlg_at+18446744073709551616]"},
      {arena, "ld.global.b32 %r1, [wlg_at+0]"},
      {arena, "ld.global.b32 %r1, [wlg_at+04]"},
      {arena, "ld.global.b32 %r1, [wlg_at+0x10]"},
      {arena, "ld.global.b32 %r1, [wlg_at-4]"},
      {arena, "ld.global.b32 %r1, [wlg_at+4+4]"},
      {arena, "ld.global.b32 %r1, [wlg_at+%r2]"},
      {arena, "ld.global.b32 %r1, [wlg_x]"},
      {arena, "ld.global.b32 %r1, [wlg_globals]"},
      {arena, "ld.global.b32 %r1, [4096]"},
      {arena, "ld.global.b32 %r1, [sm]"},
      {arena, "ld.global.b32 %r1, wlg_at"},
      {arena, "ld.b32 %r1, [wlg_at]"},
      {arena, "ld.local.b32 %r1, [wlg_at]"},
      {arena, "ld.param.b32 %r1, [wlg_at]"},
      {arena, "ld.const.b32 %r1, [wlg_at]"},
      {arena, "st.const.b32 [wlg_at], %r1"},
      {arena, "atom.local.add.u32 %r1, [wlg_at], 1"},
      {arena, "ld.global.shared.b32 %r1, [wlg_at]"},
      {arena, "ld.global.b32.b64 %r1, [wlg_at]"},
      {arena, "ld.global %r1, [wlg_at]"},
      {arena, "ld.global.L2::cache_hint.b32 %r1, [wlg_at], %rd1"},
      {arena, "ld.mmio.relaxed.sys.global.b32 %r1, [wlg_at]"},
      {arena, "ld.global.unified.b32 %r1, [wlg_at]"},
      {arena, "ld.shared::cluster.b32 %r1, [%r1]"},
      {arena, "ld.global.v8.b64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [wlg_at]"},
      {arena, "ld.global.b64 wlg_at, [wlg_at]"},
      {arena, "ld.global.v2.b64 {%rd1, wlg_at}, [wlg_at]"},
      {arena, "ld.global.v2.b64 {wlg_at, %rd1}, [wlg_at]"},
      {arena, "st.global.v2.b64 [wlg_at], {%rd1, wlg_globals}"},
      {arena, "atom.global.exch.b64 wlg_at, [wlg_at], %rd1"},
      {arena, "st.async.weak.global.b32 [wlg_at], %r1"},
      {arena, "red.async.global.add.u32 [wlg_at], %r1"},
      {arena, "cp.async.ca.shared.global [%r1], [%rd1], 4"},
      {arena, "cp.async.ca.shared.global [wlg_at], [%rd1], 4"},
      {arena, "cp.async.ca.shared.global [%r1], [wlg_at], 64"},
      {arena, "cp.async.ca.shared.global [%r1], [wlg_at], %r1"},
      {arena, "cp.async.ca.global.global [%r1], [wlg_at], 4"},
      {arena, "cp.async.ca.shared::cluster.global [%r1], [wlg_at], 4"},
      {arena, "cp.async.bulk.shared::cta.global [%r1], [wlg_at], %r1, [%r2]"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], %r2"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], wlg_stride"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], 65537"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], -1"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at+16], 16"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [wlg_at], 16"},
      {arena, "multimem.red.global.add.f32 [wlg_at], %f1"},
      {arena, "prefetch.global.L1 [wlg_at]"},
      {arena, "discard.global.L2 [wlg_at], 128"},
      {arena, "mbarrier.init.global.b64 [wlg_at], 1"},
      {arena, "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [wlg_at, {%r1}]"},
      {Joined({arena, kSharedLeg}), "ld.global.b32 %r1, [wlg_at]"},
      {Joined({arena, kSharedLeg, kLocalLeg4}), "ld.global.b32 %r1, [wlg_at]"},
      {Joined({arena, kSharedLeg, kLocalLeg4}), "ld.b32 %r1, [wlg_at+4]"},
      {Joined({arena, {"mov.b64 wlg_at, {wlg_lo, wlg_hi}"}, local}), "ld.global.b32 %r1, [wlg_at]"},
      {local, "ld.local.b32 %r1, [wlg_at+4]"},
      {local, "ld.local.b32 %r1, [%rd1]"},
      {local, "ld.local.b32 %r1, [%r1]"},
      {local, "ld.local.b32 %r1, [64]"},
      {local, "ld.local.b32 %r1, [wlg_locals+61]"},
      {local, "ld.local.b32 %r1, [wlg_locals+-1]"},
      {local, "st.local.b32 [wlg_local+64], %r1"},
      {local, "ld.local.b64 %rd1, [wlg_local+9223372036854775807]"},
      {local, "ld.param.b32 %r1, [wlg_at]"},
      {local, "ld.global.b32 %r1, [wlg_at]"},
      {parameter, "st.param.b32 [wlg_at], %r1"},
      {parameter, "ld.param.b32 %r1, [wlg_params]"},
      {parameter, "ld.local.b32 %r1, [wlg_at]"},
      {parameter, "ld.param.b64 %rd1, [p+1]"},
      {parameter, "ld.param.b64 %rd1, [p+-8]"},
      {parameter, "ld.param.b32 %r1, [p+4096]"},
      {parameter, "ld.param.b32 %r1, [%rd1]"},
      {parameter, "st.param.b32 [n], %r1"},
      {parameter, "st.param.b64 [a], %rd1"},
      {parameter, "st.param.b32 [b+13], %r1"},
      {parameter, "ld.param.b32 %r1, [sm]"},
      {parameter, "ld.shared.b32 %r1, [p]"},
      {constant, "ld.const.b32 %r1, [wlg_const+93]"},
      {constant, "ld.const.b32 %r1, [wlg_const+-4]"},
      {constant, "ld.const.b32 %r1, [%rd1]"},
      {constant, "ld.const.b32 %r1, [wlg_consts]"},
      {constant, "ld.const.b64 %rd1, [wlg_at]"},
      {constant, "ld.global.b32 %r1, [wlg_at]"},
  };
  for (const auto& test : cases) {
    ExpectAccepted(Module(test.fence), kPlain);
    ExpectRefused(Module(Joined({test.fence, {test.access}})), kPlain);
  }
}

TEST(Verify, RefusesHardenedAccesses) {
  const struct {
    Statements fence;
    const char* access;
  } cases[] = {
      {{}, "ld.shared.b32 %r1, [sm+62]"},
      {{}, "ld.shared.b32 %r1, [sm+64]"},
      {{}, "ld.shared.b32 %r1, [sm+2]"},
      {{}, "ld.shared.v2.b32 {%r1, %r2}, [word]"},
      {{}, "ld.shared.b32 %r1, [dyn]"},
      {{}, "ld.shared.b32 %r1, [%r1]"},
      {{}, "ld.param.b64 %rd1, [q+4]"},
      {{}, "ld.const.b64 %rd1, [wlg_const+4]"},
      {{}, "ld.local.b64 %rd1, [wlg_local+4]"},
      {kSharedFence4, "ld.shared.b32 %r1, [wlg_s+4]"},
      {kSharedFence4, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [wlg_s]"},
      {kSharedFence4, "mbarrier.inval.b64 [wlg_s]"},
      {Joined({kSharedFence4, kAlignedArena4}),
       "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, %r1"},
      {Joined({kSharedFence4, kAlignedArena4}),
       "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, 2"},
      {Joined({kSharedFence4, kAlignedArena4}), "cp.async.ca.shared.global [wlg_s], [wlg_at], 8"},
      {kAlignedArena4, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], 16"},
      {Joined({kAlignedArena4, kHardenedSharedLeg4, kLocalLeg4}), "ld.b32 %r1, [wlg_at]"},
      {Joined({kAlignedArena4, kHardenedSharedLeg4, kHardenedLocalLeg4}), "ld.b64 %rd1, [wlg_at]"},
  };
  for (const auto& test : cases) {
    ExpectAccepted(Module(test.fence), kHardened);
    ExpectRefused(Module(Joined({test.fence, {test.access}})), kHardened);
  }
  ExpectAccepted(Module(Joined({kSharedFence4,
                                kAlignedArena4,
                                {"cp.async.ca.shared.global [wlg_s], [wlg_at], 4, 0",
                                 "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, %p1"}})),
                 kHardened);
}

TEST(Verify, RefusesLegsInAnotherOrder) {
  const std::string access = "ld.b32 %r1, [wlg_at]";
  ExpectAccepted(Module(Joined({kArena, kSharedLeg, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kLocalLeg4, kSharedLeg, {access}})), kPlain);
  ExpectRefused(Module(Joined({kSharedLeg, kArena, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kSharedLeg, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kLocalLeg4, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kArena, {access}})), kPlain);
}

// Each case replaces one line of a fence that is otherwise whole.
TEST(Verify, RefusesAlteredFences) {
  const Statements generic = Joined({kArena, kSharedLeg, kLocalLeg4, {"ld.b32 %r1, [wlg_at]"}});
  const Statements hardened =
      Joined({kAlignedArena4, kHardenedSharedLeg4, kHardenedLocalLeg4, {"ld.b32 %r1, [wlg_at]"}});
  const struct {
    const Statements* fence;
    const char* from;
    const char* to;
  } cases[] = {
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 31, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 7, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 235"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 15, %r1, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_lo, 15, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 015, wlg_base, 234"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_hi, wlg_lo}, %rd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, %r1}, %rd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, %fd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, wlg_local"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, %rd9"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, p"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64  {wlg_lo, wlg_hi}, %rd1"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_lo, wlg_base}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_hi, wlg_lo}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_lo, %r1}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, %rd1"},
      {&generic, "isspacep.shared wlg_ps, %rd1", "isspacep.global wlg_ps, %rd1"},
      {&generic, "cvta.to.shared.u64 wlg_off, %rd1", "cvta.to.global.u64 wlg_off, %rd1"},
      {&generic, "and.b64 wlg_off, wlg_off, 262143", "and.b64 wlg_off, wlg_off, 524287"},
      {&generic, "and.b64 wlg_off, wlg_off, 262143", "and.b64 wlg_off, %rd1, 262143"},
      {&generic, "cvta.shared.u64 wlg_off, wlg_off", "cvta.local.u64 wlg_off, wlg_off"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
       "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
       "selp.b64 wlg_at, wlg_off, wlg_x, wlg_ps"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
       "selp.b64 wlg_at, wlg_off, wlg_at, %p1"},
      {&generic, "sub.s64 wlg_off, wlg_off, wlg_local", "sub.s64 wlg_off, wlg_off, wlg_params"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.s64 wlg_off, wlg_off, 60"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.u64 wlg_off, wlg_off, 61"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.u64 wlg_off, wlg_off, %rd1"},
      {&generic, "add.s64 wlg_off, wlg_off, wlg_local", "add.s64 wlg_off, wlg_off, wlg_params"},
      {&generic, "add.s64 wlg_off, wlg_off, wlg_local", "add.s64 wlg_off, wlg_off, 8"},
      {&generic, "cvta.local.u64 wlg_off, wlg_off", "cvta.shared.u64 wlg_off, wlg_off"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_lo, wlg_lo, -3"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_lo, wlg_lo, -2"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_hi, wlg_hi, -4"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, wlg_smem, 2"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, wlg_smem, -4"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, %r1, 4"},
      {&hardened, "min.u32 wlg_s, wlg_s, wlg_t", "min.s32 wlg_s, wlg_s, wlg_t"},
      {&hardened, "min.u32 wlg_s, wlg_s, wlg_t", "max.u32 wlg_s, wlg_s, wlg_t"},
      {&hardened, "and.b32 wlg_s, wlg_s, -4", "and.b32 wlg_s, wlg_s, -2"},
      {&hardened, "cvt.u64.u32 wlg_off, wlg_s", "cvt.u64.u32 wlg_off, %r1"},
      {&hardened, "cvt.u32.u64 wlg_s, wlg_off", "and.b64 wlg_off, wlg_off, 262143"},
      {&hardened, "and.b64 wlg_off, wlg_off, -4", "and.b64 wlg_off, wlg_off, -2"},
  };
  ExpectAccepted(Module(generic), kPlain);
  ExpectAccepted(Module(hardened), kHardened);
  for (const auto& test : cases) {
    const Policy& policy = test.fence == &generic ? kPlain : kHardened;
    ExpectRefused(Replaced(Module(*test.fence), test.from, test.to), policy);
  }
}

}  // namespace
}  // namespace warpline::guard
