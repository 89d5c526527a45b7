// The elements of matrices: their types, where they are in registers, their values.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_ELEMENTS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_ELEMENTS_H_

#include <cstdint>
#include <string_view>

#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Returns false for a type that matrices do not have here.
bool FindMatrixType(std::string_view name, MatrixType* type);
int BytesOf(MatrixType type);
bool IsInteger(MatrixType type);
// The number of elements in one register; f64 has a register of its own width.
int ElementsPerRegister(MatrixType type);

int ElementsPerLane(const Matrix& matrix);
// Returns where element `index` of a lane's registers is, in a register file of columns.
uint8_t* ElementOf(uint8_t* regs, const Matrix& matrix, int lane, int index);

// --- The value of an element.
double ReadFloat(const uint8_t* at, MatrixType type);
void WriteFloat(uint8_t* at, MatrixType type, double value);
int64_t ReadInteger(const uint8_t* at, MatrixType type);
// Writes 32 bits, of a value that does not fit the low ones or the nearest number that fits.
void WriteInteger(uint8_t* at, bool saturate, int64_t value);

// Records a fault and returns false when lanes are missing.
bool IsWholeWarp(Block& block, const Op& op, uint32_t mask);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MATRIX_ELEMENTS_H_
