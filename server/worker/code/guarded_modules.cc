#include "server/worker/code/guarded_modules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/cuda/cuda_numbers.h"
#include "common/fatbin/fatbin.h"
#include "guard/records.h"
#include "guard/rewrite/words.h"

namespace warpline::worker {
namespace {

using guard::RecordsHeader;

constexpr uint64_t kRecordsBytes =
    sizeof(RecordsHeader) + uint64_t{GuardedModules::kRecords} * sizeof(guard::Record);

// Names and reasons are the tenant's text, which goes to terminals.
std::string Shown(absl::string_view text) { return absl::CEscape(text.substr(0, 400)); }

// What is kept of a module until it is unloaded, with what each entry takes beside its text.
uint64_t NameBytes(const guard::GuardedText& guarded) {
  constexpr uint64_t kEntry = 128;
  uint64_t bytes = 0;
  for (const guard::Refusal& refusal : guarded.refusals) {
    bytes += kEntry + refusal.kernel.size() + refusal.function.size() + refusal.reason.size();
  }
  for (const auto* variables : {&guarded.layout.globals, &guarded.layout.consts}) {
    for (const guard::PlacedVariable& variable : *variables) {
      bytes += kEntry + variable.name.size() + variable.refusal.size();
    }
  }
  return bytes;
}

}  // namespace

GuardedModules::GuardedModules(device::Context* context, const Options& options, GuardNotes* notes)
    : context_(context),
      inner_(context),
      options_(options),
      notes_(notes),
      room_(context, options.part_base + options.part_bytes - ModuleRoomBytes(options.part_bytes),
            ModuleRoomBytes(options.part_bytes)),
      copies_(context),
      pace_copies_(context) {
  context_->LimitVariables();
  if (options.shared) {
    MutexLock lock(&mu_);
    // Modules with variables find no room otherwise.
    (void)room_.MapAtOnce(options.shared_room_bytes);
  }
}

void GuardedModules::StopKernels() {
  MutexLock lock(&pace_mu_);
  pace_word_ = guard::kStopKernels;
  blocks_ask_.store(true, std::memory_order_relaxed);
  if (pace_address_.load() != 0) (void)WritePaceWords();
}

CudaResult GuardedModules::SetNap(uint32_t nap_ns) {
  MutexLock lock(&pace_mu_);
  if (pace_word_ == guard::kStopKernels) return CudaResult::kSuccess;
  pace_word_ = std::min(nap_ns, guard::kLongestNapNs);
  blocks_ask_.store(pace_word_ != guard::kFullPace, std::memory_order_relaxed);
  return pace_address_.load() == 0 ? CudaResult::kSuccess : WritePaceWords();
}

uint32_t GuardedModules::Take() {
  MutexLock lock(&pace_mu_);
  if (!given_back_.empty()) {
    const uint32_t number = given_back_.back();
    given_back_.pop_back();
    return number;
  }
  if (stopped_.size() == guard::kPaceWords) return 0;
  stopped_.push_back(false);
  // The word is zero otherwise, as the module has it.
  const bool written = pace_word_ == guard::kFullPace || pace_address_.load() == 0 ||
                       WritePaceWords() == CudaResult::kSuccess;
  if (written) return static_cast<uint32_t>(stopped_.size() - 1);
  stopped_.pop_back();
  return 0;
}

// A number whose word could not be written is never taken again.
void GuardedModules::Give(uint32_t number) {
  if (Set(number, false) != CudaResult::kSuccess) return;
  MutexLock lock(&pace_mu_);
  given_back_.push_back(number);
}

CudaResult GuardedModules::Set(uint32_t number, bool stopped) {
  MutexLock lock(&pace_mu_);
  if (stopped_[number] == stopped) return CudaResult::kSuccess;
  stopped_[number] = stopped;
  return pace_address_.load() == 0 ? CudaResult::kSuccess : WritePaceWords();
}

CudaResult GuardedModules::WritePaceWords() {
  std::vector<uint32_t> words(stopped_.size(), pace_word_);
  for (size_t i = 0; i < words.size(); ++i) {
    if (stopped_[i]) words[i] = guard::kStopKernels;
  }
  return pace_copies_.WriteVariable(
      pace_module_, guard::kPaceWordVariable,
      {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])});
}

absl::StatusOr<GuardedModules::Ready> GuardedModules::MakeReady(std::string_view text,
                                                                uint32_t first_site) {
  const guard::RewriteOptions how = {.arena_bits = options_.window.bits,
                                     .hardened = options_.mode == GuardMode::kHardened,
                                     .checks = checks(),
                                     .first_site = first_site};
  Ready ready;
  if (options_.compiler != nullptr) {
    // What tenants send has a grammar, which the process of others does not read.
    const auto source = options_.shared ? compiler::Source::kImage : compiler::Source::kText;
    auto compiled = options_.compiler->Compile(text, how, options_.sm, options_.output, source);
    if (compiled.ok()) {
      ready.guarded = std::move(compiled->guarded());
      ready.compiled = *std::move(compiled);
      return ready;
    }
    if (!absl::IsUnimplemented(compiled.status())) return compiled.status();
  }
  if (options_.shared) {
    return absl::UnavailableError("this server has no compiler for the guarded tier");
  }
  auto guarded = guard::Guard(text, how);
  if (!guarded.ok()) return guarded.status();
  ready.guarded = *std::move(guarded);
  return ready;
}

CudaResult GuardedModules::Loading(absl::FunctionRef<CudaResult()> load) {
  if (options_.on_load) options_.on_load(true);
  const CudaResult result = load();
  if (options_.on_load) options_.on_load(false);
  return result;
}

CudaResult GuardedModules::LoadGuarded(std::string_view image, Load load,
                                       device::ModuleId* module) {
  absl::StatusOr<std::string> text("");
  if (!options_.shared) text = fatbin::PtxOf(image, options_.sm);
  if (!text.ok() && !absl::IsNotFound(text.status())) return CudaResult::kInvalidImage;
  // No module has as many accesses as its text has bytes.
  const uint64_t text_bytes = text.ok() ? text->size() : 0;
  const uint64_t first_site = checks() ? next_site_.fetch_add(text_bytes) : 0;
  if (first_site + text_bytes > UINT32_MAX) return CudaResult::kOutOfMemory;
  const auto make_ready = [&]() -> absl::StatusOr<Ready> {
    if (!text.ok()) return text.status();
    return MakeReady(options_.shared ? image : *text, static_cast<uint32_t>(first_site));
  };
  absl::StatusOr<Ready> ready = make_ready();
  if (!ready.ok()) {
    notes_->Add(absl::StrCat("a module is refused: ", Shown(ready.status().message())));
    if (absl::IsNotFound(ready.status())) return CudaResult::kNoBinaryForGpu;
    return absl::IsUnavailable(ready.status()) ? CudaResult::kJitCompilerNotFound
                                               : CudaResult::kInvalidPtx;
  }
  MutexLock lock(&mu_);
  Loaded loaded;
  const CudaResult result = LoadReady(*ready, load, module, &loaded);
  if (result != CudaResult::kSuccess) return result;
  for (const auto& [offset, bytes] : Constants(loaded)) {
    context_->AddVariable(loaded.named_consts + offset, bytes, loaded.consts + offset);
  }
  modules_[*module] = std::move(loaded);
  if (!checks()) return CudaResult::kSuccess;
  KeepSites(static_cast<uint32_t>(first_site), std::move(ready->guarded.sites));
  return WriteRanges();
}

CudaResult GuardedModules::LoadReady(const Ready& ready, Load load, device::ModuleId* module,
                                     Loaded* loaded) {
  CudaResult result = Charge(ready, loaded);
  if (result != CudaResult::kSuccess) return result;
  result = Loading([&] { return load(ready.code(), module); });
  if (result == CudaResult::kSuccess) {
    result = Place(ready.guarded, *module, loaded);
    if (result != CudaResult::kSuccess) inner_->UnloadModule(*module);
  }
  if (result != CudaResult::kSuccess) GiveBack(*loaded);
  return result;
}

CudaResult GuardedModules::Charge(const Ready& ready, Loaded* loaded) {
  const uint64_t names = NameBytes(ready.guarded);
  if (names > kMostNameBytes - name_bytes_) {
    notes_->Add(absl::StrCat("a module is refused: names and reasons of ", names,
                             " bytes are more than the session may still have"));
    return CudaResult::kOutOfMemory;
  }
  const uint64_t code = ready.code().size();
  const CudaResult result = payer_ == nullptr ? CudaResult::kSuccess : payer_->TakeCode(code);
  if (result != CudaResult::kSuccess) return result;
  loaded->code_bytes = payer_ == nullptr ? 0 : code;
  loaded->name_bytes = names;
  name_bytes_ += names;
  return result;
}

CudaResult GuardedModules::Place(const guard::GuardedText& guarded, device::ModuleId module,
                                 Loaded* loaded) {
  for (const guard::Refusal& refusal : guarded.refusals) {
    loaded->refusals.emplace(
        refusal.kernel, refusal.function == refusal.kernel
                            ? refusal.reason
                            : absl::StrCat("it calls ", refusal.function, ": ", refusal.reason));
  }
  uint64_t bytes = 0;
  CudaResult result =
      inner_->FindGlobal(module, std::string(guard::kConstVariable), &loaded->consts, &bytes);
  // The layout may be another process's, and is not what was verified.
  if (result == CudaResult::kSuccess &&
      (bytes < guard::kGuardWordBytes ||
       !guard::LieWithin(guarded.layout.consts, guard::kGuardWordBytes, bytes))) {
    result = CudaResult::kInvalidImage;
  }
  loaded->named_consts = loaded->consts;
  if (result == CudaResult::kSuccess && options_.shared && !guarded.layout.consts.empty()) {
    result = room_.Take(bytes, &loaded->named_consts);
  }
  if (result == CudaResult::kSuccess && checks()) result = PrepareRanges();
  const uint64_t globals_bytes = guarded.layout.globals_bytes;
  if (result == CudaResult::kSuccess && globals_bytes > 0) {
    result = room_.Take(globals_bytes, &loaded->globals);
    if (result == CudaResult::kSuccess) result = copies_.Zero(loaded->globals, globals_bytes);
    if (result == CudaResult::kSuccess) {
      result = copies_.Write(loaded->globals, guard::GlobalsAt(guarded.layout, loaded->globals));
    }
  }
  uint64_t pace = 0;
  loaded->leaves_records = guarded.leaves_records;
  loaded->target = guarded.target;
  if (result == CudaResult::kSuccess && guarded.leaves_records) result = PrepareRecords();
  if (result == CudaResult::kSuccess && options_.mode == GuardMode::kHardened) {
    result = PreparePaceWords(&pace);
  }
  if (result == CudaResult::kSuccess) {
    result = copies_.WriteVariable(module, std::string(guard::kConstVariable),
                                   guard::GuardWords({.arena = options_.window.base,
                                                      .globals = loaded->globals,
                                                      .records = records_,
                                                      .ranges = ranges_,
                                                      .pace = pace}));
  }
  loaded->global_variables = guarded.layout.globals;
  loaded->const_variables = guarded.layout.consts;
  return result;
}

std::map<uint64_t, uint64_t> GuardedModules::Constants(const Loaded& loaded) {
  std::map<uint64_t, uint64_t> constants;
  for (const guard::PlacedVariable& variable : loaded.const_variables) {
    if (!variable.refusal.empty() || variable.bytes == 0) continue;
    // In a layout of another process, two may begin at one place.
    uint64_t& bytes = constants[variable.offset];
    bytes = std::max(bytes, variable.bytes);
  }
  return constants;
}

void GuardedModules::GiveBack(const Loaded& loaded) {
  name_bytes_ -= loaded.name_bytes;
  if (payer_ != nullptr) payer_->GiveCode(loaded.code_bytes);
  if (loaded.globals != 0) room_.Give(loaded.globals);
  if (loaded.named_consts != loaded.consts) room_.Give(loaded.named_consts);
}

CudaResult GuardedModules::PrepareRecords() {
  if (records_ != 0) return CudaResult::kSuccess;
  uint64_t address = 0;
  CudaResult result = room_.Take(kRecordsBytes, &address);
  if (result != CudaResult::kSuccess) return result;
  RecordsHeader header;
  header.room = kRecords;
  result = copies_.Zero(address, kRecordsBytes);
  if (result == CudaResult::kSuccess) {
    result = copies_.Write(address, {reinterpret_cast<const char*>(&header), sizeof(header)});
  }
  if (result == CudaResult::kSuccess) {
    records_ = address;
  } else {
    room_.Give(address);
  }
  return result;
}

// Writing them at once also makes ready what it takes to write them later.
CudaResult GuardedModules::PreparePaceWords(uint64_t* address_of) {
  MutexLock lock(&pace_mu_);
  *address_of = pace_address_.load();
  if (*address_of != 0) return CudaResult::kSuccess;
  device::ModuleId module{};
  const CudaResult result =
      Loading([&] { return inner_->LoadModule(guard::kPaceWordModule, &module); });
  if (result != CudaResult::kSuccess) return result;
  uint64_t address = 0, bytes = 0;
  const CudaResult found = inner_->FindGlobal(module, guard::kPaceWordVariable, &address, &bytes);
  if (found == CudaResult::kSuccess && bytes == guard::kPaceWords * sizeof(uint32_t)) {
    *address_of = address;
    pace_module_ = module;
    pace_address_.store(address);
    return WritePaceWords();
  }
  inner_->UnloadModule(module);
  return found == CudaResult::kSuccess ? CudaResult::kInvalidImage : found;
}

CudaResult GuardedModules::PrepareRanges() {
  if (ranges_ != 0) return CudaResult::kSuccess;
  static_assert(kCheckedTables * kCheckedTableBytes == device::kBlockBytes);
  uint64_t address = 0;
  CudaResult result = room_.Take(device::kBlockBytes, &address);
  if (result != CudaResult::kSuccess) return result;
  // Until the client has said what there is.
  CheckedRangesHeader all;
  all.count = kAllAddresses;
  result = copies_.Write(address, {reinterpret_cast<const char*>(&all), sizeof(all)});
  if (result == CudaResult::kSuccess) {
    ranges_ = address;
  } else {
    room_.Give(address);
  }
  return result;
}

CudaResult GuardedModules::WriteRanges() {
  std::vector<CheckedRange> ranges;
  for (const auto& [id, loaded] : modules_) {
    for (const guard::PlacedVariable& variable : loaded.global_variables) {
      const uint64_t begin = loaded.globals + variable.offset;
      ranges.push_back({begin, begin + variable.bytes});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const CheckedRange& a, const CheckedRange& b) { return a.begin < b.begin; });
  return copies_.Write(ranges_ + kCheckedTableBytes, CheckedTable(ranges));
}

void GuardedModules::KeepSites(uint32_t first, std::vector<guard::CheckSite> sites) {
  if (site_count_ > kMostSites || sites.empty()) return;
  site_count_ += sites.size();
  sites_[first] = std::move(sites);
}

bool GuardedModules::FindSite(uint32_t number, guard::CheckSite* site) const {
  MutexLock lock(&mu_);
  auto found = sites_.upper_bound(number);
  if (found == sites_.begin()) return false;
  --found;
  if (number - found->first >= found->second.size()) return false;
  *site = found->second[number - found->first];
  return true;
}

uint64_t GuardedModules::ranges() const {
  MutexLock lock(&mu_);
  return ranges_;
}

uint64_t GuardedModules::records() const {
  MutexLock lock(&mu_);
  return records_;
}

CudaResult GuardedModules::LoadModule(std::string_view image, device::ModuleId* module) {
  return LoadGuarded(
      image,
      [this](std::string_view text, device::ModuleId* id) { return inner_->LoadModule(text, id); },
      module);
}

CudaResult GuardedModules::LoadModuleJit(std::string_view image,
                                         absl::Span<const device::JitOption> options,
                                         device::JitLog* log, device::ModuleId* module) {
  return LoadGuarded(
      image,
      [&](std::string_view text, device::ModuleId* id) {
        return inner_->LoadModuleJit(text, options, log, id);
      },
      module);
}

void GuardedModules::CloseConstants(device::ModuleId module) {
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return;
  for (const auto& [offset, bytes] : Constants(found->second)) {
    context_->RemoveVariable(found->second.named_consts + offset);
  }
}

CudaResult GuardedModules::UnloadModule(device::ModuleId module) {
  CloseConstants(module);
  const CudaResult result = inner_->UnloadModule(module);
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return result;
  GiveBack(found->second);
  modules_.erase(found);
  if (checks()) (void)WriteRanges();
  return result;
}

CudaResult GuardedModules::Kernels(device::ModuleId module, std::vector<std::string>* names) {
  const CudaResult result = inner_->Kernels(module, names);
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (result != CudaResult::kSuccess || found == modules_.end()) return result;
  for (const auto& [name, reason] : found->second.refusals) names->push_back(name);
  return result;
}

CudaResult GuardedModules::FindKernel(device::ModuleId module, const std::string& name,
                                      device::KernelId* kernel) {
  const CudaResult result = inner_->FindKernel(module, name, kernel);
  // Where a device refuses such kernels itself, it does not say why.
  if (result == CudaResult::kSuccess || result == CudaResult::kLaunchOutOfResources) {
    return CheckLocalMemory(name, *kernel);
  }
  if (result != CudaResult::kNotFound) return result;
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return result;
  const auto refusal = found->second.refusals.find(name);
  if (refusal == found->second.refusals.end()) return result;
  notes_->Add(absl::StrCat("kernel ", Shown(name), " is refused: ", Shown(refusal->second)));
  return CudaResult::kNotSupported;
}

CudaResult GuardedModules::CheckLocalMemory(const std::string& name, device::KernelId kernel) {
  if (options_.most_local_bytes == 0) return CudaResult::kSuccess;
  int bytes = 0;
  const CudaResult result = context_->GetKernelAttribute(kernel, kFunctionLocalBytes, &bytes);
  if (result != CudaResult::kSuccess) return result;
  if (static_cast<uint64_t>(std::max(bytes, 0)) <= options_.most_local_bytes) return result;
  notes_->Add(absl::StrCat("kernel ", Shown(name), " is refused: a thread of it takes ", bytes,
                           " bytes of local memory, and has ", options_.most_local_bytes,
                           " in the guarded tier"));
  return CudaResult::kLaunchOutOfResources;
}

bool GuardedModules::LeavesRecords(device::ModuleId module) {
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  return found != modules_.end() && found->second.leaves_records;
}

int GuardedModules::PtxVersion(device::ModuleId module) {
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  return found == modules_.end() ? 0 : found->second.target;
}

bool GuardedModules::TakeOff(std::vector<device::ParamLayout>* params) const {
  if (params->empty()) return false;
  const device::ParamLayout last = params->back();
  params->pop_back();
  uint64_t own = 0;
  for (const device::ParamLayout& param : *params) {
    own = std::max(own, uint64_t{param.offset} + param.size);
  }
  return last.offset == guard::LaunchWordsAt(own) && last.size == sizeof(guard::LaunchWords);
}

void GuardedModules::AddTo(std::string* params, const device::LaunchConfig& config,
                           uint32_t stop) const {
  // A module that asks has been loaded, and so the words are there.
  const uint64_t words = pace_address_.load(std::memory_order_relaxed);
  guard::AppendLaunchWords(guard::LaunchWordsOf(options_.window.base, config.grid, config.block,
                                                blocks_ask_.load(std::memory_order_relaxed),
                                                words + stop * sizeof(uint32_t)),
                           params);
}

bool GuardedModules::WritableVariables(device::ModuleId module, std::vector<std::string>* names) {
  if (!options_.shared) return false;
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return false;
  for (const guard::PlacedVariable& variable : found->second.global_variables) {
    if (variable.refusal.empty()) names->push_back(variable.name);
  }
  return true;
}

CudaResult GuardedModules::FindGlobal(device::ModuleId module, const std::string& name,
                                      uint64_t* address, uint64_t* bytes) {
  MutexLock lock(&mu_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return CudaResult::kNotFound;
  const Loaded& loaded = found->second;
  for (const bool is_const : {false, true}) {
    for (const guard::PlacedVariable& variable :
         is_const ? loaded.const_variables : loaded.global_variables) {
      if (variable.name != name) continue;
      if (!variable.refusal.empty()) {
        notes_->Add(
            absl::StrCat("variable ", Shown(name), " is refused: it ", Shown(variable.refusal)));
        return CudaResult::kNotSupported;
      }
      *address = (is_const ? loaded.named_consts : loaded.globals) + variable.offset;
      *bytes = variable.bytes;
      return CudaResult::kSuccess;
    }
  }
  return CudaResult::kNotFound;
}

CudaResult GuardedModules::WriteVariable(device::ModuleId module, const std::string& name,
                                         std::string_view bytes, device::StreamId stream) {
  uint64_t address = 0;
  const CudaResult found = FindRoom(module, name, bytes.size(), &address);
  if (found != CudaResult::kSuccess) return found;
  return context_->CopyToDevice(address, bytes.data(), bytes.size(), stream);
}

CudaResult GuardedModules::ManagedBlock(uint64_t, uint64_t* base, uint64_t* bytes) {
  // Modules with managed variables are refused.
  *base = *bytes = 0;
  return CudaResult::kSuccess;
}

CudaResult GuardedModules::TakeBlock(uint64_t* address) {
  MutexLock lock(&mu_);
  return room_.TakeAddress(address);
}

void GuardedModules::FreeBlock(uint64_t address) {
  MutexLock lock(&mu_);
  room_.Give(address);
}

}  // namespace warpline::worker
