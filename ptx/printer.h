// Writes a syntax tree as canonical PTX text: Parse(Print(m)) equals m.
//
// It writes one statement a line, and constants as decimal integers or hexadecimal floats.
// Thread-safe.
#ifndef WARPLINE_PTX_PRINTER_H_
#define WARPLINE_PTX_PRINTER_H_

#include <string>

#include "ptx/ast.h"

namespace warpline::ptx {

std::string Print(const Module& module);
// Writes one instruction without its line end, for messages.
std::string Print(const Instruction& instruction);

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_PRINTER_H_
