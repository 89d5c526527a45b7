#include "server/device/cpu/alu.h"

#include <string_view>
#include <unordered_map>

namespace warpline::cpu {

#define WARPLINE_DECLARE(ns) \
  namespace ns {             \
  struct Rows {              \
    const AluRow* begin;     \
    const AluRow* end;       \
  };                         \
  Rows IntegerRows();        \
  Rows WideRows();           \
  Rows BitRows();            \
  Rows FloatRows();          \
  Rows DirectedRows();       \
  Rows ApproxRows();         \
  Rows CompareRows();        \
  Rows ConvertRows();        \
  }
WARPLINE_DECLARE(alu_generic)
WARPLINE_DECLARE(alu_avx2)
#undef WARPLINE_DECLARE

namespace {

using Table = std::unordered_map<std::string_view, const AluRow*>;

template <typename R>
void AddRows(R rows, Table* table) {
  for (const AluRow* row = rows.begin; row != rows.end; ++row) table->emplace(row->mnemonic, row);
}

#define WARPLINE_ADD_ALL(ns, table)   \
  AddRows(ns::IntegerRows(), table);  \
  AddRows(ns::WideRows(), table);     \
  AddRows(ns::BitRows(), table);      \
  AddRows(ns::FloatRows(), table);    \
  AddRows(ns::DirectedRows(), table); \
  AddRows(ns::ApproxRows(), table);   \
  AddRows(ns::CompareRows(), table);  \
  AddRows(ns::ConvertRows(), table)

Table* BuildTable() {
  auto* table = new Table;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    WARPLINE_ADD_ALL(alu_avx2, table);
  } else {
    WARPLINE_ADD_ALL(alu_generic, table);
  }
  return table;
}

}  // namespace

const AluRow* FindAlu(std::string_view mnemonic) {
  static const Table* const table = BuildTable();
  const auto it = table->find(mnemonic);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace warpline::cpu
