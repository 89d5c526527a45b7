#include "server/device/cpu/modules/cpu_module.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/fatbin/fatbin.h"
#include "ptx/lexer.h"
#include "ptx/parser.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/lowering.h"
#include "server/device/cpu/machine/device_limits.h"
#include "server/device/cpu/machine/op.h"
#include "server/device/cpu/modules/cpu_log.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 32;

// The number in a target such as sm_90a.
int TargetNumber(const ptx::Module& module) {
  for (const std::string& target : module.targets) {
    if (target.rfind("sm_", 0) == 0) return std::atoi(target.c_str() + 3);
  }
  return 0;
}

// Chooses the newest PTX for this device or an older one; when there is none, the oldest of the
// newer PTX, which may still use only what this device has.
const fatbin::ImageEntry* Choose(const std::vector<fatbin::ImageEntry>& entries) {
  const fatbin::ImageEntry* best = nullptr;
  const auto fits = [](const fatbin::ImageEntry& e) { return e.sm <= kComputeCapability; };
  for (const fatbin::ImageEntry& entry : entries) {
    if (entry.kind != fatbin::ImageKind::kPtx) continue;
    const bool better = best == nullptr              ? true
                        : fits(entry) != fits(*best) ? fits(entry)
                        : fits(entry)                ? entry.sm > best->sm
                                                     : entry.sm < best->sm;
    if (better) best = &entry;
  }
  return best;
}

// Whether the PTX says that it is of a later CUDA; it may not even parse.
bool NewerThanThisDevice(const std::string& text, std::string* error) {
  ptx::Lexer lexer(text);
  const ptx::Token directive = lexer.Next();
  if (directive.kind != ptx::TokenKind::kDotName || directive.text != "version") return false;
  const ptx::Token version = lexer.Next();
  const size_t dot = version.text.find('.');
  if (dot == std::string_view::npos) return false;
  int major, minor;
  if (!absl::SimpleAtoi(std::string(version.text.substr(0, dot)), &major) ||
      !absl::SimpleAtoi(std::string(version.text.substr(dot + 1)), &minor)) {
    return false;
  }
  if (std::pair(major, minor) <= std::pair(kPtxMajor, kPtxMinor)) return false;
  *error =
      absl::StrCat("line ", version.line, ": .version ", major, ".", minor,
                   " is later than the latest that this device reads, ", kPtxMajor, ".", kPtxMinor);
  return true;
}

uint64_t MaskedAddress(uint64_t address, uint64_t mask) {
  return mask == 0 ? address : (address & mask) >> __builtin_ctzll(mask);
}

// The bits of an initialiser in a variable of `type`.
uint64_t ElementBits(const ptx::InitElement& element, const std::string& type) {
  using Kind = ptx::InitElement::Kind;
  float narrow = 0;
  double wide = 0;
  uint32_t narrow_bits = static_cast<uint32_t>(element.bits);
  if (element.kind == Kind::kFloat32) {
    std::memcpy(&narrow, &narrow_bits, sizeof(narrow));
    wide = narrow;
  } else if (element.kind == Kind::kFloat64) {
    std::memcpy(&wide, &element.bits, sizeof(wide));
    narrow = static_cast<float>(wide);
  } else if (ptx::IsFloatType(type)) {
    wide = static_cast<double>(static_cast<int64_t>(element.bits));
    narrow = static_cast<float>(wide);
  } else {
    return element.bits;
  }
  uint64_t bits = 0;
  if (ptx::TypeBytes(type) == 4) {
    std::memcpy(&narrow_bits, &narrow, sizeof(narrow));
    return narrow_bits;
  }
  std::memcpy(&bits, &wide, sizeof(wide));
  return bits;
}

}  // namespace

CudaResult CpuModule::Load(std::string_view image, MemoryMap* memory,
                           std::shared_ptr<CpuModule>* module, std::string* error) {
  const absl::StatusOr<std::vector<fatbin::ImageEntry>> entries = fatbin::ParseImage(image);
  if (!entries.ok()) {
    *error = std::string(entries.status().message());
    return CudaResult::kInvalidImage;
  }
  const fatbin::ImageEntry* const entry = Choose(*entries);
  if (entry == nullptr) {
    *error = "it holds no PTX, only code for GPUs";
    return CudaResult::kNoBinaryForGpu;
  }
  const absl::StatusOr<std::string> text = fatbin::EntryPayload(*entry);
  if (!text.ok()) {
    *error = std::string(text.status().message());
    return CudaResult::kInvalidImage;
  }
  std::shared_ptr<CpuModule> loaded(new CpuModule(memory));
  const CudaResult result = loaded->LoadPtx(*text, error);
  if (result == CudaResult::kSuccess) *module = std::move(loaded);
  return result;
}

CpuModule::~CpuModule() {
  if (region_ != 0) memory_->FreeRegion(region_);
}

CudaResult CpuModule::LoadPtx(const std::string& text, std::string* error) {
  if (NewerThanThisDevice(text, error)) return CudaResult::kUnsupportedPtxVersion;
  absl::StatusOr<ptx::Module> parsed = ptx::Parse(text);
  if (!parsed.ok()) {
    *error = absl::StrCat("invalid PTX: ", parsed.status().message());
    return CudaResult::kInvalidPtx;
  }
  ptx_ = *std::move(parsed);
  if (ptx_.address_size != 64) {
    *error = "invalid PTX: .address_size 64 is needed";
    return CudaResult::kInvalidPtx;
  }
  target_ = TargetNumber(ptx_);
  for (const auto& item : ptx_.items) {
    if (const auto* function = std::get_if<ptx::Function>(&item)) {
      const ptx::Function*& known = symbols_.functions[function->name];
      if (known == nullptr || function->has_body) known = function;
      if (function->is_entry && function->has_body) kernels_[function->name] = function;
    } else if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
      if (variable->space == "shared") symbols_.shared[variable->name] = variable;
    }
  }
  for (const auto& item : ptx_.items) {
    if (const auto* alias = std::get_if<ptx::Alias>(&item)) {
      const auto target = symbols_.functions.find(alias->target);
      if (target != symbols_.functions.end()) symbols_.functions[alias->name] = target->second;
    }
  }
  NumberFunctions();
  return PlaceVariables();
}

void CpuModule::NumberFunctions() {
  uint64_t number = 0;
  for (const auto& item : ptx_.items) {
    const auto* const function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->has_body || function->is_entry) continue;
    symbols_.function_addresses[function] = kFunctionBase + kFunctionStep * ++number;
  }
  if (number == 0) return;
  std::unordered_set<const ptx::Function*> taken;
  const auto take = [&](const std::string& name) {
    const auto it = symbols_.functions.find(name);
    if (it != symbols_.functions.end() && symbols_.AddressOf(it->second) != 0 &&
        taken.insert(it->second).second) {
      symbols_.address_taken.push_back(it->second);
    }
  };
  for (const auto& item : ptx_.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
      for (const ptx::InitSymbol& symbol : variable->init_symbols) take(symbol.name);
      continue;
    }
    const auto* const function = std::get_if<ptx::Function>(&item);
    if (function == nullptr) continue;
    for (const ptx::Statement& statement : function->body) {
      const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
      if (instruction == nullptr || instruction->opcode != "mov") continue;
      for (const ptx::Operand& operand : instruction->operands) {
        if (!operand.name.empty() && operand.name[0] != '%') take(operand.name);
      }
    }
  }
}

CudaResult CpuModule::PlaceVariables() {
  uint64_t bytes = 0;
  for (const auto& item : ptx_.items) {
    const auto* variable = std::get_if<ptx::Variable>(&item);
    if (variable == nullptr || (variable->space != "global" && variable->space != "const") ||
        variable->linkage == "extern") {
      continue;
    }
    ModuleSymbols::Global& global = symbols_.globals[variable->name];
    const uint64_t size = ptx::VariableBytes(*variable);
    if (size > kMaxVariableBytes || bytes > kMaxVariableBytes) return CudaResult::kOutOfMemory;
    bytes = ptx::AlignUp(bytes, ptx::VariableAlignment(*variable));
    global.address = bytes;  // Counted from the start of the region until its address is known.
    global.bytes = size;
    global.variable = variable;
    if (variable->space == "const") const_bytes_ += static_cast<uint32_t>(size);
    bytes += std::max<uint64_t>(size, 1);
  }
  if (bytes == 0) return CudaResult::kSuccess;
  const CudaResult result = memory_->AllocateRegion(bytes, RegionUse::kVariables, &region_);
  if (result != CudaResult::kSuccess) return result;
  region_bytes_ = bytes;
  for (auto& [name, global] : symbols_.globals) global.address += region_;
  for (const auto& [name, global] : symbols_.globals) Initialize(*global.variable, global.address);
  return CudaResult::kSuccess;
}

void CpuModule::Initialize(const ptx::Variable& variable, uint64_t address) const {
  const auto bytes = static_cast<size_t>(ptx::TypeBytes(variable.type));
  if (bytes == 0 || bytes > 8) return;
  for (size_t i = 0; i < variable.init.size(); ++i) {
    const ptx::InitElement& element = variable.init[i];
    uint64_t bits;
    if (element.kind == ptx::InitElement::Kind::kSymbol) {
      const ptx::InitSymbol& symbol = variable.init_symbols[element.symbol];
      const auto global = symbols_.globals.find(symbol.name);
      uint64_t target = 0;  // Stays 0 for what has no place here, such as external functions.
      if (global != symbols_.globals.end()) {
        target = global->second.address + element.bits;
      } else if (const auto function = symbols_.functions.find(symbol.name);
                 function != symbols_.functions.end()) {
        target = symbols_.AddressOf(function->second);
      }
      bits = MaskedAddress(target, symbol.mask);
    } else {
      bits = ElementBits(element, variable.type);
    }
    std::memcpy(reinterpret_cast<void*>(address + i * bytes), &bits, bytes);
  }
}

void CpuModule::BeginLaunch() {
  MutexLock lock(&mu_);
  ++launches_;
}

void CpuModule::EndLaunch() {
  MutexLock lock(&mu_);
  if (--launches_ == 0) idle_.NotifyAll();
}

void CpuModule::WaitForLaunches() {
  MutexLock lock(&mu_);
  while (launches_ > 0) idle_.Wait(&mu_);
}

std::vector<std::string> CpuModule::KernelNames() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : kernels_) names.push_back(name);
  return names;
}

CudaResult CpuModule::FindKernel(const std::string& name, std::shared_ptr<Kernel>* kernel) {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return CudaResult::kNotFound;
  MutexLock lock(&mu_);
  std::shared_ptr<Kernel>& known = lowered_[name];
  if (known == nullptr) {
    absl::StatusOr<KernelCode> code = Lower(symbols_, *found->second);
    if (!code.ok()) {
      const bool unsupported = absl::IsUnimplemented(code.status());
      if (const LogPermit permit = CpuLog().Ask(kKernelLine)) {
        permit.Warning("cpu device: kernel ", name,
                       unsupported ? " uses what is not supported: " : ": ",
                       code.status().message());
      }
      return unsupported ? CudaResult::kNotSupported : CudaResult::kInvalidPtx;
    }
    auto made = std::make_shared<Kernel>();
    made->code = *std::move(code);
    uint64_t total;
    for (const ptx::Placement& place : ptx::PlaceInOrder(found->second->params, &total)) {
      if (place.offset + place.bytes > kMaxParamBytes) return CudaResult::kInvalidPtx;
      made->params.push_back(
          {static_cast<uint32_t>(place.offset), static_cast<uint32_t>(place.bytes)});
    }
    made->param_bytes = static_cast<uint32_t>(total);
    made->const_bytes = const_bytes_;
    made->ptx_version = target_;
    made->max_threads = kMaxThreadsPerBlock;
    for (const ptx::Directive& directive : found->second->directives) {
      if (directive.name != "maxntid" && directive.name != "reqntid") continue;
      uint64_t threads = 1;
      for (const uint64_t value : directive.values) {
        threads = std::min<uint64_t>(threads * std::min<uint64_t>(value, kMaxThreadsPerBlock),
                                     kMaxThreadsPerBlock);
      }
      if (threads > 0) made->max_threads = static_cast<uint32_t>(threads);
    }
    const uint32_t fixed = made->code.static_shared_bytes;
    made->max_dynamic_shared_bytes = fixed < kSharedPerBlock ? kSharedPerBlock - fixed : 0;
    known = std::move(made);
  }
  *kernel = known;
  return CudaResult::kSuccess;
}

CudaResult CpuModule::FindGlobal(const std::string& name, uint64_t* address,
                                 uint64_t* bytes) const {
  const auto it = symbols_.globals.find(name);
  if (it == symbols_.globals.end()) return CudaResult::kNotFound;
  *address = it->second.address;
  *bytes = it->second.bytes;
  return CudaResult::kSuccess;
}

bool CpuModule::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) const {
  for (const auto& [name, global] : symbols_.globals) {
    if (global.address != address || !global.variable->managed) continue;
    *base = region_;
    *bytes = region_bytes_;
    return true;
  }
  return false;
}

}  // namespace warpline::cpu
