#include "server/device/cpu/alu/alu.h"

#include <string_view>

namespace warpline::cpu {

#define WARPLINE_DECLARE(ns)                                                                       \
  namespace ns {                                                                                   \
  struct Rows {                                                                                    \
    const AluRow* begin;                                                                           \
    const AluRow* end;                                                                             \
  };                                                                                               \
  Rows IntegerRows();                                                                              \
  Rows WideRows();                                                                                 \
  Rows BitRows();                                                                                  \
  Rows FloatRows();                                                                                \
  Rows DirectedRows();                                                                             \
  Rows ApproxRows();                                                                               \
  Rows CompareRows();                                                                              \
  Rows ConvertRows();                                                                              \
  Rows HalfRows();                                                                                 \
  Rows SimdRows();                                                                                 \
  void ComputeAddresses(const uint8_t*, const Op&, uint32_t, uint32_t, uint64_t, AddressSummary*); \
  }
WARPLINE_DECLARE(alu_generic)
WARPLINE_DECLARE(alu_avx2)
#undef WARPLINE_DECLARE

namespace {

template <typename R>
void AddRows(R rows, AluTable* table) {
  for (const AluRow* row = rows.begin; row != rows.end; ++row) table->emplace(row->mnemonic, row);
}

#define WARPLINE_TABLE(ns)              \
  AluTable* BuildTable_##ns() {         \
    auto* table = new AluTable;         \
    AddRows(ns::IntegerRows(), table);  \
    AddRows(ns::WideRows(), table);     \
    AddRows(ns::BitRows(), table);      \
    AddRows(ns::FloatRows(), table);    \
    AddRows(ns::DirectedRows(), table); \
    AddRows(ns::ApproxRows(), table);   \
    AddRows(ns::CompareRows(), table);  \
    AddRows(ns::ConvertRows(), table);  \
    AddRows(ns::HalfRows(), table);     \
    AddRows(ns::SimdRows(), table);     \
    return table;                       \
  }
WARPLINE_TABLE(alu_generic)
WARPLINE_TABLE(alu_avx2)
#undef WARPLINE_TABLE

}  // namespace

const AluTable& GenericAlu() {
  static const AluTable* const table = BuildTable_alu_generic();
  return *table;
}

const AluTable& Avx2Alu() {
  static const AluTable* const table = BuildTable_alu_avx2();
  return *table;
}

bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

AddressFn FindAddressFn() {
  return HasAvx2() ? alu_avx2::ComputeAddresses : alu_generic::ComputeAddresses;
}

const AluRow* FindAlu(std::string_view mnemonic) {
  static const AluTable& table = HasAvx2() ? Avx2Alu() : GenericAlu();
  const auto it = table.find(mnemonic);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace warpline::cpu
