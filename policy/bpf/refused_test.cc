// Programs that the verifier refuses, and why.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "policy/bpf/testing/assembler.h"
#include "policy/bpf/testing/test_host.h"
#include "policy/bpf/verify.h"

namespace warpline::policy::bpf {
namespace {

using testing::Assemble;

struct Refused {
  const char* name;
  const char* text;
  const char* reason;
};

#define LOOK_UP "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; call 1;"  // pc 0 to 5

const Refused kRefused[] = {
    // Where control goes
    {"Empty", "", "pc 0: the program is empty"},
    {"RunsPastItsEnd", "r0 = 0", "pc 0: the program runs past its end"},
    {"BranchAtTheEnd", "r0 = 0; if r0 == 0 goto -1", "pc 1: the program runs past its end"},
    {"JumpBehindTheEnd", "r0 = 0; goto +1; exit", "pc 1: the jump leads out of the program"},
    {"JumpBeforeTheBegin", "r0 = 0; if r0 == 0 goto -3; exit",
     "pc 1: the jump leads out of the program"},
    {"JumpFarBefore", "r0 = 0; goto -32768", "pc 1: the jump leads out of the program"},
    {"LoopForEver", "goto -1", "pc 0: this leads back to pc 0, and loops are refused"},
    {"Loop", "r0 = 9; a: r0 -= 1; if r0 != 0 goto a; exit",
     "pc 2: this leads back to pc 1, and loops are refused"},
    {"LoopByFallingThrough", "goto b; a: r0 = 0; b: r1 = 0; if r1 == 0 goto a; exit",
     "pc 1: this leads back to pc 2, and loops are refused"},
    {"JumpIntoAWideLoad", "goto +1; r0 = 5 ll; exit", "pc 0: the jump leads into a wide load"},
    {"BranchIntoAWideLoad", "r0 = 0; if r0 == 0 goto +1; r0 = 5 ll; exit",
     "pc 1: the jump leads into a wide load"},
    {"JumpBackIntoAWideLoad", "r0 = 5 ll; goto -2", "pc 2: the jump leads into a wide load"},
    {"HalfAWideLoad", "raw 0x18 0 0 5", "pc 0: the second half of a wide load is missing"},
    {"WideLoadWithAnotherSecondHalf", "raw 0x18 0 0 5; r0 = 0; exit",
     "pc 0: the second half of a wide load is something else"},
    {"Unreachable", "r0 = 0; goto end; r0 = 1; end: exit", "pc 2: this cannot be reached"},
    {"UnreachableBehindTheExit", "r0 = 0; exit; exit", "pc 2: this cannot be reached"},
    {"SecondFunction", "r0 = 0; exit; r0 = 1; exit", "pc 2: this cannot be reached"},

    // What instructions there are
    {"Opcode0", "raw 0 0 0 0; exit", "pc 0: opcode 0x00 is not known"},
    {"OpcodeFf", "raw 0xff 0 0 0; exit", "pc 0: opcode 0xff is not known"},
    {"AtomicAdd", "raw 0xdb 0x1a -8 0; exit", "pc 0: opcode 0xdb is not known"},
    {"PacketAccess", "raw 0x20 0 0 0; exit", "pc 0: opcode 0x20 is not known"},
    {"SignExtendingLoad", "raw 0x81 0x10 0 0; exit", "pc 0: opcode 0x81 is not known"},
    {"ByteSwapOf64BitArithmetic", "raw 0xd7 0 0 16; exit", "pc 0: opcode 0xd7 is not known"},
    {"LongJump", "raw 0x06 0 0 1; r0 = 0; exit", "pc 0: opcode 0x06 is not known"},
    {"ExitOf32Bits", "raw 0x96 0 0 0", "pc 0: opcode 0x96 is not known"},
    {"NegationOfARegister", "raw 0x8f 0x10 0 0; exit", "pc 0: opcode 0x8f is not known"},
    {"SignedDivision", "r0 = 1; raw 0x37 0 1 3; exit",
     "pc 1: a field is set that this instruction does not use"},
    {"SignExtendingMove", "r0 = 1; raw 0xbf 0 8 0; exit",
     "pc 1: a field is set that this instruction does not use"},
    {"ImmediateOfARegisterOperand", "r0 = 1; raw 0x0f 0 0 1; exit",
     "pc 1: a field is set that this instruction does not use"},
    {"SourceOfAnImmediateOperand", "r0 = 1; raw 0x07 0x10 0 1; exit",
     "pc 1: a field is set that this instruction does not use"},
    {"ExitWithAnOffset", "r0 = 1; raw 0x95 0 1 0",
     "pc 1: a field is set that this instruction does not use"},
    {"JumpWithAnImmediate", "r0 = 1; raw 0x05 0 0 1; exit",
     "pc 1: a field is set that this instruction does not use"},
    {"Register11", "raw 0xb7 0x0b 0 0; exit", "pc 0: there is no such register"},
    {"Register15", "raw 0xbf 0xf0 0 0; exit", "pc 0: there is no such register"},
    {"SwapOf8Bits", "r0 = 0; raw 0xd4 0 0 8; exit",
     "pc 1: bytes are swapped within 16, 32 or 64 bits"},
    {"WideLoadOfAnotherKind", "raw 0x18 0x20 0 0; raw 0 0 0 0; exit",
     "pc 0: a wide load of an unknown kind"},
    {"WriteOfR10", "r10 = 0; r0 = 0; exit", "pc 0: r10 cannot be written"},
    {"ArithmeticOnR10", "r10 += -8; r0 = 0; exit", "pc 0: r10 cannot be written"},
    {"LoadToR10", "r10 = u64 [ r1 + 0 ]; r0 = 0; exit", "pc 0: r10 cannot be written"},
    {"MapToR10", "r10 = map 0; r0 = 0; exit", "pc 0: r10 cannot be written"},
    {"MoveToR10", "r10 = r1; r0 = 0; exit", "pc 0: r10 cannot be written"},

    // What was not written
    {"NoVerdict", "exit", "pc 0: r0 is read, and was not written on every way to here"},
    {"UnwrittenRegister", "r0 = r5; exit",
     "pc 0: r5 is read, and was not written on every way to here"},
    {"UnwrittenOperand", "r0 = 1; r0 += r3; exit",
     "pc 1: r3 is read, and was not written on every way to here"},
    {"UnwrittenDestination", "r0 += 1; exit",
     "pc 0: r0 is read, and was not written on every way to here"},
    {"UnwrittenCondition", "r0 = 1; if r4 == 0 goto +0; exit",
     "pc 1: r4 is read, and was not written on every way to here"},
    {"WrittenOnOneWay", "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto end; r0 = 1; end: exit",
     "pc 3: r0 is read, and was not written on every way to here"},
    {"VerdictAfterACallOnOneWay",
     "r0 = u64 [ r1 + 0 ]; if r0 == 0 goto end; r2 = 1; end: r0 = r2; exit",
     "pc 3: r2 is read, and was not written on every way to here"},
    {"CallsClobberR1", "r6 = r1; call 3; r0 = u64 [ r1 + 0 ]; exit",
     "pc 2: r1 is read, and was not written on every way to here"},
    {"CallsClobberR5", "r5 = 1; call 3; r0 = r5; exit",
     "pc 2: r5 is read, and was not written on every way to here"},
    {"UnwrittenStack", "r0 = u64 [ r10 - 8 ]; exit",
     "pc 0: the stack at r10-8 is read, and was not written on every way to here"},
    {"StackWrittenInPart", "u32 [ r10 - 8 ] = 1; r0 = u64 [ r10 - 8 ]; exit",
     "pc 1: the stack at r10-8 is read, and was not written on every way to here"},
    {"StackWithAHole",
     "u8 [ r10 - 8 ] = 1; u16 [ r10 - 6 ] = 1; u32 [ r10 - 4 ] = 1; r0 = u64 [ r10 - 8 ]; exit",
     "pc 3: the stack at r10-8 is read, and was not written on every way to here"},
    {"StackWrittenOnOneWay",
     "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto end; u64 [ r10 - 8 ] = 1; end: r0 = u64 [ r10 - 8 ]; "
     "exit",
     "pc 3: the stack at r10-8 is read, and was not written on every way to here"},
    {"StackWrittenInHalvesOnDifferentWays",
     "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto a; u32 [ r10 - 8 ] = 1; goto end; a: u32 [ r10 - 4 ] = "
     "1;"
     "end: r0 = u64 [ r10 - 8 ]; exit",
     "pc 5: the stack at r10-8 is read, and was not written on every way to here"},
    {"StoreOfNothing", "u64 [ r10 - 8 ] = r3; r0 = 0; exit",
     "pc 0: r3 is read, and was not written on every way to here"},

    // Where memory ends
    {"BehindTheContext", "r0 = u64 [ r1 + 32 ]; exit",
     "pc 0: an access to 8 bytes at offset 32 is outside of the context"},
    {"HalfBehindTheContext", "r0 = u64 [ r1 + 28 ]; exit",
     "pc 0: an access to 8 bytes at offset 28 is outside of the context"},
    {"BeforeTheContext", "r0 = u8 [ r1 - 1 ]; exit",
     "pc 0: an access to 1 bytes at offset -1 is outside of the context"},
    {"BeforeTheContextByArithmetic", "r1 -= 8; r0 = u64 [ r1 + 0 ]; exit",
     "pc 1: an access to 8 bytes at offset -8 is outside of the context"},
    {"HiddenField", "r0 = u16 [ r1 + 18 ]; exit",
     "pc 0: the context has no field with 2 bytes at offset 18 that can be read"},
    {"TwoFieldsAtOnce", "r0 = u64 [ r1 + 8 ]; exit",
     "pc 0: the context has no field with 8 bytes at offset 8 that can be read"},
    {"UnalignedField", "r0 = u32 [ r1 + 2 ]; exit",
     "pc 0: an access to 4 bytes at offset 2 is not aligned"},
    {"WriteOfTheContext", "u64 [ r1 + 0 ] = 1; r0 = 0; exit", "pc 0: the context can only be read"},
    {"BelowTheStack", "u64 [ r10 - 520 ] = 1; r0 = 0; exit",
     "pc 0: an access to 8 bytes at offset -520 is outside of the stack"},
    {"AtTheEndOfTheStack", "u8 [ r10 + 0 ] = 1; r0 = 0; exit",
     "pc 0: an access to 1 bytes at offset 0 is outside of the stack"},
    {"AcrossTheEndOfTheStack", "r2 = r10; r2 += 4; u64 [ r2 - 8 ] = 1; r0 = 0; exit",
     "pc 2: an access to 8 bytes at offset -4 is outside of the stack"},
    {"UnalignedStack", "u64 [ r10 - 12 ] = 1; r0 = 0; exit",
     "pc 0: an access to 8 bytes at offset -12 is not aligned"},
    {"BehindTheValue", LOOK_UP "if r0 == 0 goto end; r0 = u64 [ r0 + 16 ]; end: exit",
     "pc 7: an access to 8 bytes at offset 16 is outside of the map's value"},
    {"BeforeTheValue", LOOK_UP "if r0 == 0 goto end; r0 = u64 [ r0 - 8 ]; end: exit",
     "pc 7: an access to 8 bytes at offset -8 is outside of the map's value"},
    {"UnalignedCell", LOOK_UP "if r0 == 0 goto end; r0 = u32 [ r0 + 6 ]; end: exit",
     "pc 7: an access to 4 bytes at offset 6 is not aligned"},
    {"PartOfACellIsWritten", LOOK_UP "if r0 == 0 goto end; u32 [ r0 + 0 ] = 1; r0 = 0; end: exit",
     "pc 7: a map's cells are written as a whole, 8 bytes at a time"},
    {"OutsideOnOneWay",
     "r2 = u64 [ r1 + 0 ]; r3 = r1; if r2 == 0 goto a; r3 += 4096; a: r0 = u64 [ r3 + 0 ]; exit",
     "pc 4: r3 holds different things on different ways to here"},
    {"OffsetsThatOverflow",
     "r1 += 0x7fffffff; r1 += 0x7fffffff; r1 += 2; r0 = u64 [ r1 + 0 ]; exit",
     "pc 0: the address is far outside of what it is an address of"},
    {"NumberAsAddress", "r2 = 4096; r0 = u64 [ r2 + 0 ]; exit",
     "pc 1: r2 is a number, and no address"},
    {"NullAsAddress", LOOK_UP "if r0 != 0 goto a; r0 = u64 [ r0 + 0 ]; exit; a: r0 = 0; exit",
     "pc 7: r0 is a number, and no address"},

    // Addresses are not numbers
    {"AddressPlusNumber", "r2 = u64 [ r1 + 0 ]; r1 += r2; r0 = u64 [ r1 + 0 ]; exit",
     "pc 1: an address is moved by something that is not a constant"},
    {"NumberPlusAddress", "r2 = 8; r2 += r1; r0 = u64 [ r2 + 0 ]; exit",
     "pc 1: an address is moved by something that is not a constant"},
    {"AddressMinusAddress", "r2 = r10; r2 -= r1; r0 = r2; exit",
     "pc 1: an address is moved by something that is not a constant"},
    {"AddressMinusItself", "r2 = r10; r2 -= r2; r0 = r2; exit",
     "pc 1: an address is moved by something that is not a constant"},
    {"AddressAnd", "r1 &= 7; r0 = r1; exit", "pc 0: r1 is an address, and a number is needed"},
    {"AddressTimes", "r1 *= 1; r0 = r1; exit", "pc 0: r1 is an address, and a number is needed"},
    {"AddressNegated", "r1 = -r1; r0 = r1; exit", "pc 0: r1 is an address, and a number is needed"},
    {"AddressSwapped", "r1 = be64 r1; r0 = r1; exit",
     "pc 0: r1 is an address, and a number is needed"},
    {"HalfAnAddress", "w0 = w1; exit", "pc 0: r1 is an address, and a number is needed"},
    {"HalfAnAddressPlusNumber", "w1 += 8; r0 = 0; exit",
     "pc 0: r1 is an address, and a number is needed"},
    {"AndRangeExploit",
     "r2 = u32 [ r1 + 8 ]; r2 &= 255; if r2 < 6 goto end; if r2 > 8 goto end; r2 &= 5; r2 -= 4;"
     "r1 += r2; r0 = u8 [ r1 + 0 ]; exit; end: r0 = 0; exit",
     "pc 6: an address is moved by something that is not a constant"},
    {"AddressIsReturned", "r0 = r1; exit", "pc 1: r0 is an address, and not a verdict"},
    {"StackIsReturned", "r0 = r10; exit", "pc 1: r0 is an address, and not a verdict"},
    {"MapIsReturned", "r0 = map 0; exit", "pc 2: r0 is an address, and not a verdict"},
    {"LookUpIsReturned", LOOK_UP "exit", "pc 6: r0 is an address, and not a verdict"},
    {"AddressIsCompared", "r0 = 0; if r1 > 5 goto +0; exit",
     "pc 1: r1 is an address, and a number is needed"},
    {"AddressIsComparedWithZero", "r0 = 0; if r1 == 0 goto +0; exit",
     "pc 1: r1 is an address, and a number is needed"},
    {"AddressesAreCompared", "r0 = 0; if r1 == r10 goto +0; exit",
     "pc 1: r1 is an address, and a number is needed"},
    {"NumberIsComparedWithAnAddress", "r0 = 0; if r0 < r10 goto +0; exit",
     "pc 1: r10 is an address, and a number is needed"},
    {"LookUpIsComparedWithOne", LOOK_UP "if r0 == 1 goto +0; r0 = 0; exit",
     "pc 6: r0 is an address, and a number is needed"},
    {"HalfALookUpIsCompared", LOOK_UP "if w0 == 0 goto +0; r0 = 0; exit",
     "pc 6: r0 is an address, and a number is needed"},
    {"LookUpIsComparedByOrder", LOOK_UP "if r0 > 0 goto +0; r0 = 0; exit",
     "pc 6: r0 is an address, and a number is needed"},
    {"AddressIsStoredInAMap",
     "r6 = r1;" LOOK_UP "if r0 == 0 goto end; u64 [ r0 + 0 ] = r6; r0 = 0; end: exit",
     "pc 8: an address cannot be stored in a map"},
    {"ValueIsStoredInItself", LOOK_UP "if r0 == 0 goto end; u64 [ r0 + 0 ] = r0; r0 = 0; end: exit",
     "pc 7: an address cannot be stored in a map"},
    {"AddressIsAKey", "u64 [ r10 - 8 ] = r1; r2 = r10; r2 += -8; r1 = map 1; call 1; r0 = 0; exit",
     "pc 5: r2 has to be the address of 8 bytes of the stack that are written: a key of map map1"},
    {"AddressIsAudited", "call 4; r0 = 0; exit", "pc 0: r1 is an address, and a number is needed"},
    {"PartOfAnAddressIsRead", "u64 [ r10 - 8 ] = r1; r0 = u32 [ r10 - 8 ]; exit",
     "pc 1: this reads a part of an address"},
    {"PartOfAnAddressIsStored", "u32 [ r10 - 8 ] = r1; r0 = 0; exit",
     "pc 0: this stores a part of an address"},
    {"AddressHalfOverwritten",
     "u64 [ r10 - 8 ] = r1; u32 [ r10 - 8 ] = 0; r2 = u64 [ r10 - 8 ]; r0 = u64 [ r2 + 0 ]; exit",
     "pc 2: the stack at r10-8 is read, and was not written on every way to here"},
    {"AddressHalfOverwrittenIsNoNumber",
     "u64 [ r10 - 8 ] = r1; u8 [ r10 - 8 ] = 0; r0 = u8 [ r10 - 7 ]; exit",
     "pc 2: the stack at r10-7 is read, and was not written on every way to here"},
    {"AddressOverANumberHalfOverwritten",
     "u64 [ r10 - 8 ] = 4; u64 [ r10 - 8 ] = r1; u8 [ r10 - 8 ] = 0; r0 = u64 [ r10 - 8 ]; exit",
     "pc 3: the stack at r10-8 is read, and was not written on every way to here"},
    {"AddressOrNumberOnTheStack",
     "r2 = u64 [ r1 + 0 ]; u64 [ r10 - 8 ] = r1; if r2 == 0 goto a; u64 [ r10 - 8 ] = 4096;"
     "a: r3 = u64 [ r10 - 8 ]; r0 = u64 [ r3 + 0 ]; exit",
     "pc 4: the stack at r10-8 is read, and was not written on every way to here"},
    {"ContextOrStackOnTheStack",
     "r2 = u64 [ r1 + 0 ]; u64 [ r10 - 8 ] = r1; if r2 == 0 goto a; u64 [ r10 - 8 ] = r10;"
     "a: r3 = u64 [ r10 - 8 ]; u64 [ r3 + 0 ] = 1; r0 = 0; exit",
     "pc 4: the stack at r10-8 is read, and was not written on every way to here"},
    {"AddressOrNumber",
     "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto a; r1 = 4096; a: r0 = u64 [ r1 + 0 ]; exit",
     "pc 3: r1 holds different things on different ways to here"},
    {"ContextOrStack",
     "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto a; r1 = r10; a: u64 [ r1 - 8 ] = 1; r0 = 0; exit",
     "pc 3: r1 holds different things on different ways to here"},
    {"StackAtDifferentOffsets",
     "r2 = u64 [ r1 + 0 ]; r3 = r10; if r2 == 0 goto a; r3 += -8; a: u64 [ r3 - 8 ] = 1; r0 = 0; "
     "exit",
     "pc 4: r3 holds different things on different ways to here"},
    {"MixedIsCopied", "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto a; r1 = 4096; a: r3 = r1; r0 = 0; exit",
     "pc 3: r1 holds different things on different ways to here"},
    {"MixedIsStored",
     "r2 = u64 [ r1 + 0 ]; if r2 == 0 goto a; r1 = 4096; a: u64 [ r10 - 8 ] = r1; r0 = 0; exit",
     "pc 3: r1 holds different things on different ways to here"},

    // Look-ups
    {"NotComparedWithNull", LOOK_UP "r0 = u64 [ r0 + 0 ]; exit",
     "pc 6: r0 may be null: a look-up's result has to be compared with 0 first"},
    {"StoreWithoutComparing", LOOK_UP "u64 [ r0 + 0 ] = 1; r0 = 0; exit",
     "pc 6: r0 may be null: a look-up's result has to be compared with 0 first"},
    {"AdditionBeforeComparing", LOOK_UP "r0 += 8; if r0 == 0 goto +0; r0 = 0; exit",
     "pc 6: r0 may be null: a look-up's result has to be compared with 0 first"},
    {"ComparedTheWrongWay", LOOK_UP "if r0 == 0 goto a; r0 = 0; exit; a: r0 = u64 [ r0 + 0 ]; exit",
     "pc 9: r0 is a number, and no address"},
    {"ComparedOnOneWay",
     "r6 = u64 [ r1 + 0 ];" LOOK_UP
     "if r6 == 0 goto a; if r0 == 0 goto end; a: r0 = u64 [ r0 + 0 ]; exit; end: exit",
     "pc 9: r0 may be null: a look-up's result has to be compared with 0 first"},
    {"InvalidAfterTheOtherBranchJoins",
     LOOK_UP "if r0 == 0 goto a; r6 = 1; a: r0 = u64 [ r0 + 0 ]; exit",
     "pc 8: r0 may be null: a look-up's result has to be compared with 0 first"},
    {"ComparedWithAnotherLookUp",
     LOOK_UP "r6 = r0;" LOOK_UP "if r0 == 0 goto end; r0 = u64 [ r6 + 0 ]; exit; end: exit",
     "pc 14: r6 may be null: a look-up's result has to be compared with 0 first"},
    {"ValuesOfDifferentLookUps",
     "r7 = u64 [ r1 + 0 ];" LOOK_UP "r6 = r0;" LOOK_UP
     "if r7 == 0 goto a; r0 = r6; a: if r0 == 0 goto end; r0 = u64 [ r0 + 0 ]; end: exit",
     "pc 16: r0 holds different things on different ways to here"},
    {"MovedValueOrNull",
     LOOK_UP "if r0 == 0 goto a; r0 += 8; a: if r0 == 0 goto end; r0 = u64 [ r0 + 0 ]; end: exit",
     "pc 8: r0 holds different things on different ways to here"},

    // Calls
    {"UnknownHelper", "call 77; exit", "pc 0: there is no helper function 77"},
    {"HelperZero", "call 0; exit", "pc 0: there is no helper function 0"},
    {"NegativeHelper", "call -1; exit", "pc 0: there is no helper function -1"},
    {"OwnFunction", "raw 0x85 0x10 0 1; exit; r0 = 0; exit",
     "pc 0: only helper functions can be called; what a policy calls of its own has to be inlined"},
    {"MisdeclaredHelper", "call 10; r0 = 0; exit", "pc 0: helper function misdeclared has no map"},
    {"ArgumentIsMissing", "r1 = 1; r2 = 2; r3 = 3; r4 = 4; call 9; exit",
     "pc 4: r5 is read, and was not written on every way to here"},
    {"NumberForAMap", "r1 = 1; u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; call 1; r0 = 0; exit",
     "pc 4: r1 has to be a map"},
    {"ContextForAMap", "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; call 1; r0 = 0; exit",
     "pc 3: r1 has to be a map"},
    {"NumberForAKey", "r1 = map 1; r2 = 7; call 1; r0 = 0; exit",
     "pc 3: r2 has to be the address of a key on the stack"},
    {"ContextForAKey", "r2 = r1; r1 = map 1; call 1; r0 = 0; exit",
     "pc 3: r2 has to be the address of a key on the stack"},
    {"KeyThatIsTooShort",
     "u32 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; call 1; r0 = 0; exit",
     "pc 5: r2 has to be the address of 8 bytes of the stack that are written: a key of map map1"},
    {"KeyOfAnotherMap", "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 2; call 1; r0 = 0; exit",
     "pc 5: r2 has to be the address of 12 bytes of the stack that are written: a key of map map2"},
    {"KeyPastTheStack", "u32 [ r10 - 4 ] = 7; r2 = r10; r2 += -4; r1 = map 1; call 1; r0 = 0; exit",
     "pc 5: r2 has to be the address of 8 bytes of the stack that are written: a key of map map1"},
    {"KeyBelowTheStack", "r2 = r10; r2 += -516; r1 = map 0; call 1; r0 = 0; exit",
     "pc 4: r2 has to be the address of 4 bytes of the stack that are written: a key of map map0"},
    {"KeyAboveTheStack", "r2 = r10; r1 = map 0; call 1; r0 = 0; exit",
     "pc 3: r2 has to be the address of 4 bytes of the stack that are written: a key of map map0"},
    {"AddressForACell",
     "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; r3 = r10; r4 = 1; call 2; exit",
     "pc 7: r3 is an address, and a number is needed"},
    {"UnknownMap", "r1 = map 3; r0 = 0; exit", "pc 0: there is no such map"},
    {"NegativeMap", "raw 0x18 0x11 0 -1; raw 0 0 0 0; r0 = 0; exit", "pc 0: there is no such map"},
    {"MapWithAnOffset", "raw 0x18 0x11 0 0; raw 0 0 0 8; r0 = 0; exit",
     "pc 0: there is no such map"},
    {"MapIsRead", "r1 = map 0; r0 = u64 [ r1 + 0 ]; exit",
     "pc 2: a map is reached by helper functions only"},
    {"MapIsWritten", "r1 = map 0; u64 [ r1 + 0 ] = 1; r0 = 0; exit",
     "pc 2: a map is reached by helper functions only"},
    {"MapIsAddedTo", "r1 = map 0; r1 += 8; r0 = 0; exit",
     "pc 2: a map is no address to be added to"},
};

std::string ReasonFor(const std::vector<Instruction>& code) {
  const absl::Status verified =
      Verify(code, testing::TestHook(), testing::TestMaps(), testing::TestHelpers());
  return std::string(verified.message());
}

class RefusedTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, SaysWhy) {
  const std::vector<Instruction> code = Assemble(GetParam().text);
  EXPECT_EQ(ReasonFor(code), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedTest, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Refused, OneInstructionTooMany) {
  std::vector<Instruction> code(kMostInstructions, Assemble("r0 = 5").front());
  code.push_back(Assemble("exit").front());
  EXPECT_EQ(ReasonFor(code), "pc 4096: the program has more than 4096 instructions");
}

// The verifier lets through what the table of opcodes has, and nothing else.
TEST(Refused, EveryOpcodeThatIsNotInTheTable) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (kShapes[opcode] != Shape::kUnknown) continue;
    std::vector<Instruction> code = Assemble("r0 = 0; r1 = 0; exit");
    code[1].opcode = static_cast<uint8_t>(opcode);
    EXPECT_NE(ReasonFor(code).find("is not known"), std::string::npos) << opcode;
  }
}

}  // namespace
}  // namespace warpline::policy::bpf
