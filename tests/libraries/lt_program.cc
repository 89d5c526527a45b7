// Calls cublasLtMatmul() with matrices of many shapes, types and orders and with every epilogue,
// and compares with loops.
//
//   lt_program [ROUNDS] [--edges|--anywhere] [SEED]
//
// The libraries are found as a program finds them: libcuda.so.1 and libcublasLt.so.13. Runs
// natively as well. With --edges nothing is mapped behind operands (native runs only); --anywhere
// is the default, and stands before a seed. Exits with 0 when everything is right, 2 when there is
// no cuBLASLt, else 1.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/libraries/blas_checks.h"
#include "tests/libraries/lt_operands.h"

namespace warpline::blas_checks {
namespace {

// Bits of cublasLtEpilogue_t.
enum Epilogue : unsigned {
  kDefault = 1,
  kRelu = 2,
  kBias = 4,
  kReluGradient = 8,
  kBiasGradient = 16,
  kGelu = 32,
  kGeluGradient = 64,
  kAux = 128,
  kSumsOfA = 256,
  kSumsOfB = 512
};
constexpr unsigned kEpilogues[] = {kDefault,
                                   kRelu,
                                   kRelu | kAux,
                                   kBias,
                                   kRelu | kBias,
                                   kRelu | kAux | kBias,
                                   kReluGradient | kAux,
                                   kReluGradient | kAux | kBiasGradient,
                                   kGelu,
                                   kGelu | kAux,
                                   kGelu | kBias,
                                   kGelu | kAux | kBias,
                                   kGeluGradient | kAux,
                                   kGeluGradient | kAux | kBiasGradient,
                                   kSumsOfA,
                                   kSumsOfB};

// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  std::array<uint64_t, 8> algorithm;
  size_t workspace;
  int state;
  float waves;
  std::array<int, 4> reserved;
};

int refused = 0;

// Says which product it was when the library ends the program.
extern "C" void OnAbort(int) {
  std::printf("ended by the library: %s\n", under_way.c_str());
  std::fflush(stdout);
  std::_Exit(3);
}

void CompareNumbers(const std::string& what, const std::vector<Number>& got,
                    const std::vector<Number>& want, double relative) {
  ++checks;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= relative * (1 + std::abs(want[i]))) continue;
    std::printf("%s: element %zu is %g + %gi, not %g + %gi\n", what.c_str(), i, got[i].real(),
                got[i].imag(), want[i].real(), want[i].imag());
    ++wrong;
    return;
  }
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double GeluGradient(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// The types of A, of B, and of C and D but for those of kFloat8Types.
struct Types {
  int compute, in, out, scale;
  int b = -1, c = -1;  // -1: as A and D.
};
constexpr Types kTypes[] = {{kIn32, kFloat, kFloat, kFloat},
                            {kTf32, kFloat, kFloat, kFloat},
                            {kIn32, kHalf, kHalf, kFloat},
                            {kIn32, kBrain, kBrain, kFloat},
                            {kIn32, kHalf, kFloat, kFloat},
                            {kIn32, kBrain, kFloat, kFloat},
                            {kIn16, kHalf, kHalf, kHalf},
                            {kIn64, kDouble, kDouble, kDouble},
                            {kIn32Pedantic, kFloat, kFloat, kFloat},
                            {kFast16, kFloat, kFloat, kFloat},
                            {kFastBrain, kFloat, kFloat, kFloat},
                            {kInInteger, kByte, kInteger, kInteger},
                            {kIn64, kComplexDouble, kComplexDouble, kComplexDouble},
                            {kIn32, kComplexFloat, kComplexFloat, kComplexFloat}};
constexpr Types kFloat8Types[] = {
    {kIn32, kE4m3, kBrain, kFloat, kE4m3, kBrain}, {kIn32, kE4m3, kE4m3, kFloat, kE4m3, kBrain},
    {kIn32, kE4m3, kHalf, kFloat, kE4m3, kHalf},   {kIn32, kE4m3, kFloat, kFloat, kE4m3, kFloat},
    {kIn32, kE4m3, kBrain, kFloat, kE5m2, kBrain}, {kIn32, kE5m2, kE5m2, kFloat, kE4m3, kBrain},
    {kIn32, kE5m2, kE4m3, kFloat, kE4m3, kHalf},   {kIn32, kE4m3, kFloat, kFloat, kE5m2, kFloat}};
constexpr unsigned kFloat8Epilogues[] = {kDefault,      kRelu,         kBias,
                                         kRelu | kBias, kGelu | kBias, kGelu};
constexpr Types kPlanarTypes[] = {{kIn32, kHalf, kHalf, kComplexFloat},
                                  {kIn32, kHalf, kFloat, kComplexFloat},
                                  {kIn32, kBrain, kBrain, kComplexFloat},
                                  {kIn32, kBrain, kFloat, kComplexFloat}};

// How a program comes to an algorithm.
enum class Choice {
  kFound,  // It takes one of those that the library finds, or leaves it to the library.
  kOwn     // It configures one.
};

// The relative error of a type.
double Epsilon(int type) {
  switch (type) {
    case kHalf:
      return 1e-3;
    case kBrain:
      return 2e-2;  // The library may sum parts in this type.
    case kE4m3:
      return 0.07;
    case kE5m2:
      return 0.13;
    case kInteger:
    case kDouble:
    case kComplexDouble:
      return 1e-12;
    default:
      return 1e-6;
  }
}

// One product, all of whose parameters are random but for the types and the epilogue.
class Product {
 public:
  using Form = Matrix::Form;

  Product(const Types& types, unsigned epilogue, Form form = Form::kPlain,
          Choice choice = Choice::kFound)
      : types_(types),
        epilogue_(epilogue),
        form_(form),
        choice_(choice),
        float8_(IsFloat8(types.in)),
        plain_(IsInteger(types.in) || float8_ || form == Form::kArrays),
        unit_(float8_                                                ? 16
              : !plain_ && choice == Choice::kFound && Below(3) == 0 ? 1
                                                                     : 8),
        m_(unit_ * (1 + Below((Below(8) == 0 ? 320 : 64) / unit_))),
        n_(unit_ * (1 + Below(64 / unit_)) + (float8_ && Below(2) == 0 ? Below(16) : 0)),
        k_(unit_ * (1 + Below((float8_ && Below(2) == 0 ? 640 : 64) / unit_))),
        batches_(Below(3) == 0 || form == Form::kArrays ? 1 + Below(3) : 1),
        ta_(float8_ ? 1 : Below(HasImaginary() ? 3 : 2)),
        tb_(float8_ ? 0 : Below(HasImaginary() ? 3 : 2)),
        fast_(float8_ && Below(2) == 0),
        by_rows_(!plain_ && epilogue == kDefault && Below(4) == 0),
        offset_(!plain_ && choice == Choice::kFound && Below(3) == 0 ? 1 : 0),
        more_(More()),
        a_(form, types.in, ta_ != 0 ? k_ : m_, ta_ != 0 ? m_ : k_, batches_, Rows(), More(), Off()),
        b_(form, types.b < 0 ? types.in : types.b, tb_ != 0 ? n_ : k_, tb_ != 0 ? k_ : n_, batches_,
           Rows(), More(), Off()),
        c_(form, c_type(), m_, n_, batches_, by_rows_, more_, Off()),
        d_(form, types.out, m_, n_, batches_, by_rows_, more_, Off()),
        scale_modes_(float8_ ? ScaleModes() : Modes(-1, -1)),
        scale_a_(Scales(scale_modes_.first, m_)),
        scale_b_(Scales(scale_modes_.second, n_)),
        scale_d_(float8_ && IsFloat8(types.out) && Below(2) == 0
                     ? std::make_unique<Elements>(kFloat, 1)
                     : nullptr),
        largest_(float8_ && IsFloat8(types.out) && Below(2) == 0
                     ? std::make_unique<Elements>(kFloat, 1)
                     : nullptr),
        bias_count_(epilogue == kSumsOfB ? n_ : m_),
        bias_stride_(bias_count_ + Off()),
        bias_(c_type(), static_cast<size_t>(bias_stride_) * (batches_ - 1) + bias_count_, Off()),
        mask_leading_((m_ + 127) / 128 * 128),
        mask_(kFloat, static_cast<size_t>(mask_leading_) / 32 * n_ * batches_),
        aux_leading_((m_ + 7) / 8 * 8),
        aux_(types.out, static_cast<size_t>(aux_leading_) * n_ * batches_) {}

  void Check() {
    Describe();
    under_way = What();
    const bool on_device = Below(4) == 0;
    const Number alpha = 2, beta = Below(2);
    Elements scalars(types_.scale, 2);
    std::array<std::array<uint8_t, 16>, 2> host{};
    Encode(types_.scale, alpha, host[0].data());
    Encode(types_.scale, beta, host[1].data());
    const auto* const device = static_cast<char*>(scalars.at());
    const void* alpha_at = host[0].data();
    const void* beta_at = host[1].data();
    Number used_alpha = alpha, used_beta = beta;
    if (on_device) {
      Set(kSetDescription, &description_, 2, int32_t{1});
      alpha_at = device;
      beta_at = device + BytesOf(types_.scale);
      used_alpha = scalars.host[0];
      used_beta = scalars.host[1];
    }
    const Heuristic* chosen = nullptr;
    std::array<Heuristic, 4> found{};
    int count = 0;
    const int asked = Ask(&found, &count);
    if (asked != 0 || count == 0) {
      // NVIDIA's library has no kernel for every combination.
      Expect(asked == 0 || asked == 15 || asked == 7, "heuristics: ", asked);
      ++refused;
      return;
    }
    // By itself the native library takes kernels that need more alignment than D may have, or the
    // second plane.
    if (offset_ != 0 || form_ == Form::kPlanes || Below(4) != 0) chosen = &found[Below(count)];
    if (choice_ == Choice::kOwn) {
      if (!Configure(&found[0])) {
        ++refused;
        return;
      }
      chosen = &found[0];
    }
    Matrix* const c = Below(3) == 0 && c_type() == types_.out ? &d_ : &c_;  // In place.
    const Allocation workspace(kWorkspace);
    const int done = LT("Matmul", void*, Descriptor*, const void*, const void*, Descriptor*,
                        const void*, Descriptor*, const void*, const void*, Descriptor*, void*,
                        Descriptor*, const void*, void*, size_t, CUstream)(
        handle, &description_, alpha_at, a_.at(), &a_.layout, b_.at(), &b_.layout, beta_at, c->at(),
        &c->layout, d_.at(), &d_.layout, chosen == nullptr ? nullptr : chosen->algorithm.data(),
        reinterpret_cast<void*>(workspace.address()), kWorkspace, nullptr);
    Expect(done == 0, What() + ": status ", done);
    if (done == 0) Judge(*c, used_alpha, used_beta);
  }

 private:
  static constexpr char kSetDescription[] = "cublasLtMatmulDescSetAttribute";
  static constexpr size_t kWorkspace = size_t{1} << 20;

  Matrix::More More() const {
    return {unit_ * Below(3), unit_ * Below(3) + Off(), Below(16), Below(2) == 0};
  }
  bool Rows() const { return !plain_ && Below(4) == 0; }
  int Off() const { return offset_ * Below(8); }
  bool Has(unsigned bits) const { return (epilogue_ & bits) != 0; }
  bool HasImaginary() const { return IsComplex(types_.in) || form_ == Form::kPlanes; }
  int c_type() const { return types_.c < 0 ? types_.out : types_.c; }

  // The scales of A or B, which has so many rows or columns of the result. Their numbers are powers
  // of two.
  struct ScaleFactors {
    int mode;  // cublasLtMatmulMatrixScale_t
    int outer;
    int blocks;  // The number of blocks of terms, in memory.
    Elements numbers;

    double At(int row, int term) const {
      const int index = mode == 0   ? 0
                        : mode == 3 ? row
                        : mode == 4 ? row + term / 128 * outer
                                    : term / 128 + row / 128 * blocks;
      return numbers.host[index].real();
    }
  };
  // The modes of A's and B's scales; -1 for none. Others do not go together. There are no several
  // scales for batches.
  using Modes = std::pair<int, int>;
  Modes ScaleModes() const {
    constexpr Modes kModes[] = {{-1, -1}, {-1, 0}, {0, -1}, {0, 0}, {3, 3}, {4, 4}, {4, 5}, {5, 4}};
    return kModes[Below(batches_ > 1 ? 4 : 8)];
  }
  std::unique_ptr<ScaleFactors> Scales(int mode, int outer) const {
    if (mode < 0) return nullptr;
    const int terms = (k_ + 127) / 128, squares = (terms + 3) / 4 * 4;
    const int count = mode == 0   ? 1
                      : mode == 3 ? outer
                      : mode == 4 ? outer * terms
                                  : squares * ((outer + 127) / 128);
    return std::unique_ptr<ScaleFactors>(
        new ScaleFactors{mode, outer, squares, Elements(kFloat, count, 0, {0.5, 1, 2, 1})});
  }
  double ScaleOf(const std::unique_ptr<ScaleFactors>& scales, int row, int term) const {
    return scales == nullptr ? 1 : scales->At(row, term);
  }
  std::string What() const {
    char text[160];
    std::snprintf(text, sizeof(text),
                  "compute %d, types %d and %d, epilogue %u, ops %d %d, %d x %d x %d, %d times%s%s",
                  types_.compute, types_.in, types_.out, epilogue_, ta_, tb_, m_, n_, k_, batches_,
                  by_rows_       ? ", by rows"
                  : offset_ != 0 ? ", anywhere"
                                 : "",
                  form_ == Form::kPlanes    ? ", in planes"
                  : form_ == Form::kArrays  ? ", arrays"
                  : choice_ == Choice::kOwn ? ", own algorithm"
                                            : "");
    if (form_ == Form::kPlanes) {
      std::string first = ", second plane first in '";
      if (a_.imaginary_first) first += 'A';
      if (b_.imaginary_first) first += 'B';
      if (d_.imaginary_first) first += 'D';
      return text + first + "'";
    }
    if (!float8_) return text;
    return text + std::string(fast_ ? ", fast" : "") +
           (", scales " + std::to_string(scale_modes_.first)) + " " +
           std::to_string(scale_modes_.second);
  }
  static void Expect(bool holds, const std::string& what, int number) {
    ++checks;
    if (holds) return;
    std::printf("%s%d\n", what.c_str(), number);
    ++wrong;
  }

  void Describe() {
    Must(LT("MatmulDescInit_internal", Descriptor*, size_t, int, int)(
             &description_, sizeof(description_), types_.compute, types_.scale),
         "description");
    Set(kSetDescription, &description_, 3, static_cast<int32_t>(ta_));
    Set(kSetDescription, &description_, 4, static_cast<int32_t>(tb_));
    Set(kSetDescription, &description_, 7, static_cast<uint32_t>(epilogue_));
    if (Has(kBias | kBiasGradient | kSumsOfA | kSumsOfB)) {
      Set(kSetDescription, &description_, 8, bias_.at());
      Set(kSetDescription, &description_, 10, static_cast<int64_t>(bias_stride_));
      if (c_type() != types_.out) Set(kSetDescription, &description_, 26, int32_t{c_type()});
    }
    const auto scale = [&](int pointer, int mode, const std::unique_ptr<ScaleFactors>& scales) {
      if (scales == nullptr) return;
      Set(kSetDescription, &description_, pointer, scales->numbers.at());
      if (scales->mode != 0) Set(kSetDescription, &description_, mode, int32_t{scales->mode});
    };
    scale(17, 31, scale_a_);
    scale(18, 32, scale_b_);
    if (fast_) Set(kSetDescription, &description_, 25, int8_t{1});
    if (scale_d_ != nullptr) Set(kSetDescription, &description_, 20, scale_d_->at());
    if (largest_ != nullptr) Set(kSetDescription, &description_, 21, largest_->at());
    if (!Has(kAux)) return;
    const bool mask = Has(kRelu | kReluGradient);
    const auto leading = static_cast<int64_t>(mask ? mask_leading_ : aux_leading_);
    Set(kSetDescription, &description_, 11, mask ? mask_.at() : aux_.at());
    Set(kSetDescription, &description_, 12, leading);
    Set(kSetDescription, &description_, 13, leading * n_);
  }

  int Ask(std::array<Heuristic, 4>* found, int* count) {
    Descriptor preference{};
    Must(LT("MatmulPreferenceInit_internal", Descriptor*, size_t)(&preference, 64), "preference");
    constexpr char kSet[] = "cublasLtMatmulPreferenceSetAttribute";
    Set(kSet, &preference, 1, static_cast<uint64_t>(kWorkspace));
    if (Below(4) == 0) Set(kSet, &preference, 3, uint32_t{0});  // No sums of parts.
    const std::pair<int, const Matrix*> matrices[] = {{5, &a_}, {6, &b_}, {7, &c_}, {8, &d_}};
    for (const auto& [attribute, matrix] : matrices) {
      // One bit or the other says how little one of the planes is aligned.
      const auto address = reinterpret_cast<uintptr_t>(matrix->elements->at()) |
                           matrix->apart * BytesOf(matrix->type);
      Set(kSet, &preference, attribute,
          static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 256)));
    }
    return LT("MatmulAlgoGetHeuristic", void*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
              Descriptor*, Descriptor*, int, Heuristic*,
              int*)(handle, &description_, &a_.layout, &b_.layout, &c_.layout, &d_.layout,
                    &preference, static_cast<int>(found->size()), found->data(), count);
  }

  // Notes the configuration.
  void Note(const void* algorithm) const {
    under_way = What() + ", configuration";
    for (int attribute = 0; attribute < 9; ++attribute) {
      uint32_t value = 0;
      size_t written = 0;
      LT("MatmulAlgoConfigGetAttribute", const void*, int, void*, size_t, size_t*)
      (algorithm, attribute, &value, attribute < 7 ? 4 : 2, &written);
      under_way += " " + std::to_string(value);
    }
  }

  // Looks for an algorithm and a configuration that the library has for this product.
  bool Configure(Heuristic* found) const {
    std::array<int, 64> ids{};
    int count = 0;
    const int types[] = {types_.compute, types_.scale,
                         types_.in,      types_.b < 0 ? types_.in : types_.b,
                         c_type(),       types_.out};
    const auto ids_of =
        LT("MatmulAlgoGetIds", void*, int, int, int, int, int, int, int, int*, int*);
    const auto init = LT("MatmulAlgoInit", void*, int, int, int, int, int, int, int, void*);
    const auto get = LT("MatmulAlgoCapGetAttribute", const void*, int, void*, size_t, size_t*);
    const auto set = LT("MatmulAlgoConfigSetAttribute", void*, int, const void*, size_t);
    const auto check =
        LT("MatmulAlgoCheck", void*, const Descriptor*, const Descriptor*, const Descriptor*,
           const Descriptor*, const Descriptor*, const void*, Heuristic*);
    Must(ids_of(handle, types[0], types[1], types[2], types[3], types[4], types[5],
                static_cast<int>(ids.size()), ids.data(), &count),
         "numbers of algorithms");
    for (int attempt = 0; attempt < 40 && count > 0; ++attempt) {
      void* const algorithm = found->algorithm.data();
      Must(init(handle, types[0], types[1], types[2], types[3], types[4], types[5],
                ids[Below(count)], algorithm),
           "algorithm");
      const auto number = [&](int capability) {
        uint32_t value = 0;
        size_t written = 0;
        Must(get(algorithm, capability, &value, sizeof(value), &written), "capability");
        return static_cast<int>(value);
      };
      const auto one_of = [&](int capability) {
        std::array<uint32_t, 1024> values{};
        size_t written = 0;
        Must(get(algorithm, capability, values.data(), sizeof(values), &written), "list");
        return written == 0 ? 0 : values[Below(static_cast<int>(written / sizeof(uint32_t)))];
      };
      const auto configure = [&](int attribute, auto value) {
        Must(set(algorithm, attribute, &value, sizeof(value)), "configuration");
      };
      configure(1, one_of(6));
      configure(6, one_of(13));
      const uint32_t scheme = (uint32_t{1} << Below(3)) & static_cast<uint32_t>(number(1));
      if (number(0) != 0 && scheme != 0 && Below(2) == 0) {
        configure(2, uint32_t(2 + Below(7)));
        configure(3, scheme);
      }
      configure(4, uint32_t(Below(number(2) + 1)));
      configure(5, uint32_t(Below(number(7) + 1)));
      if (Below(3) == 0) configure(8, static_cast<uint16_t>(Below(52)));
      Heuristic checked{};
      Note(algorithm);
      const int status = check(handle, &description_, &a_.layout, &b_.layout, &c_.layout,
                               &d_.layout, algorithm, &checked);
      if (status == 0 && checked.workspace <= kWorkspace) return true;
    }
    return false;
  }

  bool MaskBit(const std::vector<uint8_t>& bytes, int batch, int i, int j) const {
    const size_t bit =
        static_cast<size_t>(mask_leading_) * (static_cast<size_t>(batch) * n_ + j) + i;
    return (bytes[bit / 8] >> (bit % 8) & 1) != 0;
  }
  size_t AuxIndex(int batch, int i, int j) const {
    return static_cast<size_t>(aux_leading_) * (static_cast<size_t>(batch) * n_ + j) + i;
  }

  void Judge(const Matrix& c, Number alpha, Number beta) {
    std::vector<Number> want = d_.HostAll(), bias = bias_.host, aux = aux_.host;
    const std::vector<uint8_t> mask = mask_.ReadBytes();
    bool mask_is_right = true;
    double largest = 0;
    for (int batch = 0; batch < batches_; ++batch) {
      for (int j = 0; j < n_; ++j) {
        for (int i = 0; i < m_; ++i) {
          Number sum = 0;
          for (int l = 0; l < k_; ++l) {
            sum += a_.At(ta_, batch, i, l) * b_.At(tb_, batch, l, j) * ScaleOf(scale_a_, i, l) *
                   ScaleOf(scale_b_, j, l);
          }
          Number x = alpha * sum + beta * c.At(0, batch, i, j);
          if (Has(kBias)) x += bias_.host[static_cast<size_t>(batch) * bias_stride_ + i];
          if (Has(kRelu)) {
            if (Has(kAux) && MaskBit(mask, batch, i, j) != (x.real() >= 0)) mask_is_right = false;
            x = std::max(x.real(), 0.0);
          } else if (Has(kGelu)) {
            if (Has(kAux)) aux[AuxIndex(batch, i, j)] = x;
            x = Gelu(x.real());
          } else if (Has(kReluGradient)) {
            if (!MaskBit(mask_.bytes(), batch, i, j)) x = 0;
          } else if (Has(kGeluGradient)) {
            x *= GeluGradient(aux_.host[AuxIndex(batch, i, j)].real());
          }
          largest = std::max(largest, std::abs(x));
          if (scale_d_ != nullptr) x *= scale_d_->host[0];
          want[d_.Index(batch, i, j)] = x;
        }
      }
      for (int i = 0; i < bias_count_ && Has(kBiasGradient | kSumsOfA | kSumsOfB); ++i) {
        Number all = 0;
        for (int j = 0; j < (Has(kBiasGradient) ? n_ : k_); ++j) {
          all += Has(kSumsOfA)   ? a_.At(ta_, batch, i, j)
                 : Has(kSumsOfB) ? b_.At(tb_, batch, j, i)
                                 : want[d_.Index(batch, i, j)];
        }
        bias[static_cast<size_t>(batch) * bias_stride_ + i] = all;
      }
    }
    const double error = Epsilon(types_.out);
    // NVIDIA's own GELU is an approximation.
    const bool smooth = Has(kGelu | kGeluGradient);
    const std::string what = What();
    if (largest_ != nullptr) {
      CompareNumbers(what + ", largest", largest_->Read(), {largest}, smooth ? 2e-3 : 1e-5);
    }
    CompareNumbers(what, d_.Read(), want, smooth ? std::max(2 * error, 2e-3) : error);
    CompareNumbers(what + ", bias", bias_.Read(), bias, (smooth ? 4e-3 : error) * n_);
    CompareNumbers(what + ", auxiliary memory", aux_.Read(), aux, error);
    Expect(mask_is_right, what + ", mask ", 0);
  }

  const Types types_;
  const unsigned epilogue_;
  const Form form_;
  const Choice choice_;
  const bool float8_;  // Has 8-bit floating point, for which there is one order, and operations.
  // Without rows and odd sizes: NVIDIA's heuristics name algorithms for integers then that the
  // library does not have.
  const bool plain_;
  const int unit_, m_, n_, k_, batches_, ta_, tb_;
  const bool fast_;  // CUBLASLT_MATMUL_DESC_FAST_ACCUM
  const bool by_rows_;
  const int offset_;         // 1 where operands begin at any element.
  const Matrix::More more_;  // C and D have one layout.
  Matrix a_, b_, c_, d_;
  const Modes scale_modes_;
  const std::unique_ptr<ScaleFactors> scale_a_, scale_b_;
  const std::unique_ptr<Elements> scale_d_, largest_;
  const int bias_count_, bias_stride_;
  Elements bias_;
  const int mask_leading_;
  Elements mask_;
  const int aux_leading_;
  Elements aux_;
  Descriptor description_{};
};

// Attributes can be read again, and what is wrong is refused.
void Attributes() {
  const auto expect = [&](bool holds, const char* what) {
    ++checks;
    if (holds) return;
    std::printf("attributes: %s\n", what);
    ++wrong;
  };
  void* layout = nullptr;
  Must(LT("MatrixLayoutCreate", void**, int, uint64_t, uint64_t, int64_t)(&layout, kHalf, 3, 5, 7),
       "layout");
  const auto get = LT("MatrixLayoutGetAttribute", void*, int, void*, size_t, size_t*);
  uint64_t columns = 0;
  size_t written = 0;
  expect(get(layout, 3, &columns, sizeof(columns), &written) == 0 && columns == 5 && written == 8,
         "columns");
  expect(get(layout, 3, nullptr, 0, &written) == 0 && written == 8, "the size of an attribute");
  expect(get(layout, 3, &columns, 4, &written) == 7, "another size");
  expect(get(layout, 99, &columns, sizeof(columns), &written) == 7, "no such attribute");
  Must(LT("MatrixLayoutDestroy", void*)(layout), "end of the layout");
  Descriptor small{};
  expect(
      LT("MatmulDescInit_internal", Descriptor*, size_t, int, int)(&small, 8, kIn32, kFloat) == 3,
      "too small a descriptor");
  expect(Find<size_t (*)()>(blas, "cublasLtGetVersion")() >= 130000, "the version");
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::string where = argc > 2 ? argv[2] : "--anywhere";
  Allocation::edges = where == "--edges";
  if (argc > 3) random_bits.seed(static_cast<unsigned>(std::atoi(argv[3])));
  std::signal(SIGABRT, &OnAbort);
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  blas = dlopen("libcublasLt.so.13", RTLD_NOW);
  if (driver == nullptr || blas == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  CUcontext context;
  Must(DRIVER(cuInit)(0), "cuInit");
  Must(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0), "context");
  Must(DRIVER(cuCtxSetCurrent)(context), "context");
  const int made = LT("Create", void**)(&handle);
  if (made != 0) {
    std::printf("cublasLtCreate: %d\n", made);
    return 2;
  }
  Attributes();
  for (int i = 0; i < rounds; ++i) {
    for (const Types& types : kTypes) {
      for (const unsigned epilogue : kEpilogues) {
        if ((IsComplex(types.in) || IsInteger(types.in)) && epilogue != kDefault) continue;
        Product(types, epilogue).Check();
        // Some for integers read behind their operands, and the server has none.
        if (IsInteger(types.in)) continue;
        Product(types, epilogue, Matrix::Form::kPlain, Choice::kOwn).Check();
      }
      if (!IsInteger(types.in)) Product(types, kDefault, Matrix::Form::kArrays).Check();
    }
    for (const Types& types : kFloat8Types) {
      for (const unsigned epilogue : kFloat8Epilogues) {
        if (epilogue != kDefault && types.c == kFloat) continue;
        Product(types, epilogue).Check();
        Product(types, epilogue, Matrix::Form::kPlain, Choice::kOwn).Check();
      }
    }
    for (const Types& types : kPlanarTypes) {
      Product(types, kDefault, Matrix::Form::kPlanes).Check();
    }
  }
  Must(LT("Destroy", void*)(handle), "destroy");
  std::printf("lt_program: %d checks, %d wrong, %d combinations that the library lacks\n", checks,
              wrong, refused);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warpline::blas_checks

int main(int argc, char** argv) { return warpline::blas_checks::Main(argc, argv); }
