// Tables on a terminal, whose columns are as wide as their contents.
#ifndef WARPLINE_TOOLS_CLI_TABLE_H_
#define WARPLINE_TOOLS_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace warpline::cli {

struct Column {
  const char* heading;
  bool right = false;     // Aligned to the right, as numbers are.
  bool optional = false;  // Left out when it is empty in every row.
};

// Thread-compatible. Cells are printed as they are; see Shown().
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row with as many cells as there are columns.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The headings and a line for each row. Each line is cut to `most_columns` characters, unless
  // that is 0.
  std::string Text(size_t most_columns = 0) const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TABLE_H_
