// The dispatch of one GPU: its slices with their sessions, and an arbiter for each engine.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_DISPATCH_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_DISPATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "server/gpu_server/dispatch/dispatch_registration.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/gpu_use.h"
#include "server/gpu_server/dispatch/kernel_paces.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// Thread-compatible: the dispatcher's lock guards it.
class GpuDispatch {
 public:
  // How soon the next look is due.
  enum class Pace { kNone, kSlow, kWatchful, kTurns, kDraining };

  // `policy` is borrowed.
  GpuDispatch(int ordinal, const ArbiterOptions& options, policy::Policy* policy);

  // Replaces the policy (borrowed).
  void SetPolicy(policy::Policy* policy);
  // Returns the longest time for which the policy has made all slices wait for one of the engines;
  // 0 while it does not.
  int64_t held_ns() const;
  const FlightRecorder& recorder() const { return recorder_; }

  // Records a move, and charges the slice for it that caused it.
  void AddMove(const MemoryMove& move, int64_t now_ns);

  // Adds the registration, whose device number `device` is this GPU.
  void Join(DispatchRegistration* registration, size_t device);
  void Leave(DispatchRegistration* registration);

  // Reads what all sessions want, decides, and writes what they may do. With fewer than two slices
  // there is nothing to decide.
  Pace Look(int64_t now_ns);
  // Adds the use since the last reading to the registration's usage. Look() does that while the GPU
  // is given in turns.
  void ReadUsage(DispatchRegistration* registration, int64_t now_ns);

  // True if the GPU is given in turns: several slices have it, or the sessions of one differ in
  // niceness, or the policy is asked about a lone slice, too.
  bool is_dispatched() const {
    return slices_.size() > (asked_always_ ? 0 : 1) || niceness_differs_;
  }
  // Returns a tenant's number for policies, which is the same in every run of the server.
  static uint64_t TenantNumber(const std::string& tenant);
  // Returns how many sessions the tenant has here.
  uint32_t SessionsOf(const std::string& tenant) const;
  // Sets the state of the device that policies are told from now on.
  void SetSurroundings(const Surroundings& surroundings);
  // Makes all slices wait until then.
  void HoldAll(int64_t until_ns) { held_until_ns_ = until_ns; }
  // Slows all slices down until then: nobody begins anything for `us` of each millisecond, and
  // threads of kernels that ask nap for as long. Takes kMostThrottleUs for more; 0 for full speed.
  void Throttle(uint32_t us, int64_t until_ns);
  static constexpr uint32_t kMostThrottleUs = 900;
  // The time of one rest and the work after it.
  static constexpr int64_t kThrottlePeriodNs = 10'000'000;
  GpuUse Use() const;
  // See Dispatcher::ChargeStolen().
  void ChargeStolen(uint64_t session, int64_t stolen_ns);
  // Returns the calls that tell sessions to change the pace of their kernels or to end, since the
  // last TakeOrders(). The caller runs them without the lock.
  std::vector<std::function<void()>> TakeOrders() { return std::exchange(orders_, {}); }

 private:
  struct Member {
    DispatchRegistration* registration;
    size_t device;
    std::array<SlotReading, kEngines> read = {};
    KernelFacts kernel = {};  // Its launch that waits, of the compute engine.
    uint32_t rank = 0;        // The highest of its streams that want the compute engine.
  };
  struct Slice {
    std::array<Contender*, kEngines> contenders{};
    std::array<int64_t, kEngines> charged_ns{};  // At the last look.
    // Compute since the slice came, as in PacedSlice.
    uint64_t busy_ns = 0;
    uint64_t commands = 0;
    uint32_t held_for = 0;  // See PacedSlice.
    int64_t held_since_ns = 0;
    std::vector<Member> members;
  };

  ContenderTerms TermsOf(const DispatchTerms& terms, size_t engine);
  void Read(Member* member, int64_t now_ns);
  static bool Worked(const SlotReading& read);
  static bool WantsEngine(const SlotReading& read);
  static uint32_t NicenessOf(const Member& member);
  // Returns the device time of a member of the slice while there were no turns.
  int64_t PartOf(const Slice& slice, const SlotReading& read) const;
  // Where a session stands among those of its slice: the first numbers come first.
  using Standing = std::pair<uint32_t, uint32_t>;
  static Standing StandingOf(const Member& member, size_t engine);
  // Returns the first standing of those members that want the engine; the last one for none.
  static Standing FirstStanding(const Slice& slice, size_t engine);
  void NoteNiceness();
  void ShowWants(Slice* slice);
  void Settle(Slice* slice);
  // Opens all engines. Called when at most one slice is left and the policy need not be asked.
  void OpenAll();
  // Returns the end of the rest that all slices have now, because they are slowed down or held.
  int64_t RestsUntil(int64_t now_ns) const;
  // Decides how fast kernels go.
  void SetPaces(int64_t now_ns);
  void SetPace(const Slice& slice, uint32_t nap_us);
  // Keeps the slice from launching anything, for the sake of the slice with the vgpu `held_for`.
  // With 0 it lets the slice go on.
  void Hold(Slice* slice, uint32_t held_for, int64_t now_ns);
  // Carries out the arbiters' verdicts on work that is in the way.
  void EndWhatIsInTheWay(int64_t now_ns);
  // Ends those of the slice's sessions that keep the engine busy.
  void Kill(const Slice& slice, size_t engine, const KillVerdict& verdict, int64_t now_ns);
  // Returns the slice that the session belongs to; null if it has none here.
  Slice* SliceOf(uint64_t session);
  // Returns the name by which policies know the slice's tenant.
  std::string TenantOf(uint32_t vgpu) const;

  const int ordinal_;
  FlightRecorder recorder_;
  std::array<std::unique_ptr<EngineArbiter>, kEngines> arbiters_;
  policy::Policy* policy_;
  KernelPaces paces_;
  std::vector<std::function<void()>> orders_;
  std::map<std::string, Slice> slices_;  // By the slice's KeyOf().
  bool asked_always_;
  bool niceness_differs_ = false;  // Within a slice.
  uint32_t last_vgpu_ = 0;
  int64_t held_until_ns_ = 0;
  uint32_t throttle_us_ = 0;
  int64_t throttled_until_ns_ = 0;
  int64_t wanted_ns_ = 0;  // When some slice last wanted an engine.
  // The sum of the shares of all sessions that divide the multiprocessors and had work at the last
  // look, in thousandths.
  uint32_t busy_shares_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_GPU_DISPATCH_H_
