#include "tools/cli/table.h"

#include <algorithm>

namespace warpline::cli {
namespace {

// Cells are UTF-8: the continuation bytes of a character take no column of their own.
bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

void AppendLine(std::string line, size_t most, std::string* out) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (most != 0 && Width(line) > most) {
    size_t end = 0;
    for (size_t seen = 0; end < line.size(); ++end) {
      if (StartsCharacter(line[end]) && seen++ == most) break;
    }
    line.resize(end);
  }
  *out += line + "\n";
}

}  // namespace

std::string Table::Text(size_t most_columns) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = 0;
    for (const auto& row : rows_) width = std::max(width, Width(row[i]));
    const bool left_out = columns_[i].optional && width == 0;
    widths.push_back(left_out ? 0 : std::max(width, Width(columns_[i].heading)));
  }
  std::string out;
  const auto append = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell = cell_of(i);
      const std::string padding(widths[i] - Width(cell), ' ');
      line += columns_[i].right ? padding + cell : cell + padding;
      line += "  ";
    }
    AppendLine(std::move(line), most_columns, &out);
  };
  append([&](size_t i) { return std::string(columns_[i].heading); });
  for (const auto& row : rows_) append([&](size_t i) { return row[i]; });
  return out;
}

}  // namespace warpline::cli
