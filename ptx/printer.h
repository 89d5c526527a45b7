// Writes a syntax tree as canonical PTX text: Parse(Print(m)) equals m.
//
// One statement a line; constants as decimal integers or hexadecimal floats. Thread-safe.
#ifndef WARPLINE_PTX_PRINTER_H_
#define WARPLINE_PTX_PRINTER_H_

#include <string>

#include "ptx/ast.h"

namespace warpline::ptx {

std::string Print(const Module& module);
// One instruction without its line end, for messages.
std::string Print(const Instruction& instruction);

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_PRINTER_H_
