#!/usr/bin/env python3
"""Generates what client and server know of the libraries' functions that servers execute.

gen_adapters.py TABLE --functions=F --numbers=F --entries=F --thunks=F --slots=F

--functions  the readers of the calls' values, and the table of functions (proto/adapters/library_call.cc)
--numbers    their numbers on the wire, as constants
--entries    the client's exported functions, in C
--thunks     the calls of NVIDIA's functions
--slots      the places of the values of functions that are written by hand, for C and C++
"""
import argparse
import ast
import re
import sys
import tomllib

# Kinds of parameters that are numbers of enumerations, and how their values are checked.
OPTIONS = {"op": "Operation", "side": "Side", "fill": "Fill", "diag": "Diagonal", "type": "Type",
           "compute": "Compute", "algo": "Algorithm", "order": "Order", "epilogue": "Epilogue",
           "choice": "Choice", "planes": "Planes", "scaling": "Scaling"}
MEMORY = {"in": "kRead", "out": "kWrite", "inout": "kReadWrite"}
POINTERS = {"ins": "kRead", "inouts": "kReadWrite"}
SHAPES = {"vector": 2, "vectors": 4, "matrix": 3, "matrices": 5, "scales": 3}
KEYS = {"name", "number", "doc", "parameters", "memory", "scalars", "requires", "supports", "work",
        "divide", "by_hand", "align", "beside", "apart", "blocks"}
LETTERS = "HSDCZ"
NAMED_TYPES = {"INT32": "4", "BITS128": "16"}


class TableError(Exception):
    pass


def require(condition, where, what):
    if not condition:
        raise TableError("%s: %s" % (where, what))


class Parameter:
    def __init__(self, text, slot, where):
        words = text.split()
        require(len(words) == 2, where, "%r is not KIND NAME" % text)
        self.kind, self.name = words
        self.slot = slot
        known = set(OPTIONS) | set(MEMORY) | set(POINTERS) | {"int", "long", "scalar", "real", "result"}
        require(self.kind in known, where, "unknown kind %r" % self.kind)

    @property
    def slots(self):
        return 2 if self.is_scalar else 1

    @property
    def is_scalar(self):
        return self.kind in ("scalar", "real")

    @property
    def is_number(self):
        return self.kind in OPTIONS or self.kind in ("int", "long")

    def c_type(self, wide=False):
        if self.kind in OPTIONS:
            return "int"
        if self.kind == "int":
            return "int64_t" if wide else "int"
        if self.kind == "long":
            return "long long"
        return "const void*" if self.is_scalar or self.kind in ("in", "ins", "inouts") else "void*"


class Function:
    """A row of the table, with all letters of its name."""

    def __init__(self, row):
        self.where = where = row.get("name", "a function without a name")
        unknown = set(row) - KEYS
        require(not unknown, where, "unknown keys %s" % sorted(unknown))
        for key in ("name", "number", "doc", "parameters", "work"):
            require(key in row, where, "no %s" % key)
        self.number = row["number"]
        self.doc = row["doc"]
        match = re.fullmatch(r"(\w+)\{([A-Za-z,]+)\}(\w+)|(\w+)", row["name"])
        require(match, where, "bad name")
        if match[4]:
            self.names, self.letters = [match[4]], [""]
            plain = match[4]
        else:
            letters = match[2].split(",")
            self.names = [match[1] + letter + match[3] for letter in letters]
            self.letters = [letter.upper() for letter in letters]
            require(set(self.letters) <= set(LETTERS), where, "unknown letter")
            # A row for one type has it in its constant: another row may have the other types.
            plain = match[1] + (letters[0] if len(letters) == 1 else "") + match[3]
        plain = re.sub(r"_v2$", "", plain.removeprefix("cublas"))
        self.constant = "k" + plain[0].upper() + plain[1:]
        self.parameters = []
        slot = 0
        for text in row["parameters"]:
            parameter = Parameter(text, slot, where)
            slot += parameter.slots
            self.parameters.append(parameter)
        self.slots = slot
        self.by_name = {p.name: p for p in self.parameters}
        require(len(self.by_name) == len(self.parameters), where, "a parameter twice")
        self.memory = row.get("memory", {})
        for name in self.memory:
            require(name in self.by_name, where, "memory of %r, which is no parameter" % name)
        self.scalars = row.get("scalars")
        require(self.scalars in (None, "COMPUTE"), where, "unknown type of scalars")
        self.requires = row.get("requires", [])
        self.supports = row.get("supports", [])
        self.work = row["work"]
        self.divide = row.get("divide", {})
        self.by_hand = row.get("by_hand", False)
        self.align = row.get("align", {})
        self.beside = row.get("beside", {})
        self.apart = row.get("apart", [])
        require(len(self.apart) in (0, 4), where, "four operands are apart")
        for name in [*self.align, *self.beside, *self.beside.values(), *self.apart]:
            require(name in self.memory, where, "%r is no operand" % name)
        self.blocks = row.get("blocks")
        require(self.blocks is None or len(self.blocks) == 3, where, "blocks of what?")
        require(not self.divide or self.divide.get("by") in self.by_name, where, "divided by what?")

    @property
    def kinds(self):
        """One letter for each value (LibraryFunction::kinds)."""
        letters = {"op": "o", "side": "o", "fill": "o", "diag": "o", "type": "t", "compute": "c",
                   "algo": "a", "order": "o", "epilogue": "o", "choice": "o", "planes": "o",
                   "scaling": "o", "int": "i", "long": "l",
                   "scalar": "s.", "real": "s.", "result": "r", "ins": "p", "inouts": "p"}
        return "".join(letters.get(p.kind, "m") for p in self.parameters)

    def expression(self, text):
        """The C++ of an expression of parameters."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise TableError("%s: bad expression %r" % (self.where, text)) from None
        return self.emit(tree, text)

    def emit(self, node, text):
        binary = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&"}
        compare = {ast.LtE: "<=", ast.GtE: ">=", ast.Lt: "<", ast.Gt: ">", ast.Eq: "==", ast.NotEq: "!="}
        if isinstance(node, ast.Name):
            parameter = self.by_name.get(node.id)
            require(parameter and parameter.is_number, self.where, "%r in %r" % (node.id, text))
            return node.id
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return "Wide(%d)" % node.value
        if isinstance(node, ast.BinOp) and type(node.op) in binary:
            return "(%s %s %s)" % (self.emit(node.left, text), binary[type(node.op)],
                                   self.emit(node.right, text))
        if isinstance(node, ast.IfExp):
            return "(%s ? %s : %s)" % (self.condition(node.test, text), self.emit(node.body, text),
                                       self.emit(node.orelse, text))
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return "(%s)" % sign.join(self.condition(value, text) for value in node.values)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in compare:
            return "(%s %s %s)" % (self.emit(node.left, text), compare[type(node.ops[0])],
                                   self.emit(node.comparators[0], text))
        raise TableError("%s: %r is not understood" % (self.where, text))

    def condition(self, node, text):
        """The same of a condition: a number holds if it is not zero."""
        number = isinstance(node, (ast.Name, ast.BinOp))
        return self.emit(node, text) + (" != Wide(0)" if number else "")

    def shape(self, name):
        """(shape, its arguments, the bytes of an element, the count) of an operand.

        Only each(SHAPE, COUNT), the shape behind the addresses of an array, has a count.
        """
        text = self.memory.get(name)
        require(text, self.where, "what does %s span?" % name)
        call = self.parse(text)
        count = None
        if call.func.id == "each":
            require(len(call.args) == 2 and isinstance(call.args[0], ast.Call), self.where,
                    "%r is not each(SHAPE, COUNT)" % text)
            call, count = call.args[0], call.args[1]
            require(call.func.id in ("vector", "matrix"), self.where, "%r is no shape" % text)
        require((self.by_name[name].kind in POINTERS) == (count is not None), self.where,
                "%r: an array of addresses has each()" % text)
        require(call.func.id in SHAPES, self.where, "%r is no shape" % text)
        arguments = SHAPES[call.func.id]
        require(len(call.args) in (arguments, arguments + 1), self.where,
                "%r: %d arguments" % (text, arguments))
        element = "4" if call.func.id == "scales" else "r.element_bytes()"
        if len(call.args) > arguments:
            of = call.args[arguments].id
            if of in NAMED_TYPES:
                element = NAMED_TYPES[of]
            else:
                require(of in self.by_name and self.by_name[of].kind == "type", self.where,
                        "%r is no type" % of)
                element = "r.BytesOf(%s)" % of
        return call.func.id, call.args[:arguments], element, count

    def parse(self, text):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            tree = None
        require(isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name), self.where,
                "%r is no shape" % text)
        return tree

    def advance_bytes(self, name):
        """The bytes of what an operand has many of."""
        if self.by_name[name].kind in POINTERS:
            return "8"
        return self.shape(name)[2]

    @property
    def has_vectors(self):
        """Whether it multiplies matrices by vectors, for which there are no matrix units."""
        return any("vector(" in text for text in self.memory.values())

    def signed(self):
        """The parameters that may be negative: increments."""
        found = set()
        for name in self.memory:
            if self.by_name[name].kind == "result":
                continue
            shape, arguments, _, _ = self.shape(name)
            if shape in ("vector", "vectors"):
                found |= {node.id for node in ast.walk(arguments[1]) if isinstance(node, ast.Name)}
        return found

    def scalar_bytes(self):
        if self.scalars == "COMPUTE":
            return "r.ScalarBytes(computeType, Ctype)"
        return "r.element_bytes()"


def emit_reader(function, out):
    lines = []
    signed = function.signed()
    for p in function.parameters:
        if p.kind in OPTIONS:
            lines.append("const Wide %s = r.%s(%d);" % (p.name, OPTIONS[p.kind], p.slot))
        elif p.kind == "int":
            lines.append("const Wide %s = r.%s(%d);" % (p.name, "Signed" if p.name in signed else "Size",
                                                     p.slot))
        elif p.kind == "long":
            lines.append("const Wide %s = r.Long(%d);" % (p.name, p.slot))
    types = [p.name for p in function.parameters if p.kind == "type"]
    if types:
        lines.append("r.Types(computeType, %s);" % ", ".join(types))
    for p in function.parameters:
        if p.kind == "scalar":
            lines.append("r.Scalar(%d, %s);" % (p.slot, function.scalar_bytes()))
        elif p.kind == "real":
            lines.append("r.Scalar(%d, r.real_bytes());" % p.slot)
        elif p.kind == "result":
            element = NAMED_TYPES.get(function.memory.get(p.name), "r.element_bytes()")
            lines.append("r.Result(%d, %s);" % (p.slot, element))
        elif p.kind in MEMORY:
            shape, arguments, element, _ = function.shape(p.name)
            emitted = ", ".join(function.emit(node, p.name) for node in arguments)
            lines.append("r.%s(%d, OperandUse::%s, %s, %s);" % (
                shape.capitalize(), p.slot, MEMORY[p.kind], element, emitted))
        elif p.kind in POINTERS:
            shape, arguments, element, count = function.shape(p.name)
            emitted = ", ".join(function.emit(node, p.name) for node in arguments)
            lines.append("r.Each(%d, OperandUse::%s, %s, r.%sShape(%s), %s, %s);" % (
                p.slot, POINTERS[p.kind], element, shape.capitalize(), emitted,
                function.emit(count, p.name), "false" if function.has_vectors else "true"))
    for text in function.requires:
        lines.append("r.Require(%s);" % function.expression(text))
    for text in function.supports:
        lines.append("r.Support(%s);" % function.expression(text))
    for name, align in function.align.items():
        lines.append("r.Align(%d, %d);" % (function.by_name[name].slot, align))
    for name, other in function.beside.items():
        lines.append("r.Beside(%d, %d);" % (function.by_name[name].slot, function.by_name[other].slot))
    if function.apart:
        lines.append("r.Apart(%s);" % ", ".join(str(function.by_name[name].slot)
                                               for name in function.apart))
    lines.append("r.Work(%s);" % function.expression(function.work))
    if function.blocks:
        lines.append("r.Blocks(%s);" % ", ".join(function.expression(text) for text in function.blocks))
    if function.divide:
        when = function.divide.get("when")
        if when:
            lines.append("if (!%s) return;" % function.expression(when))
        lines.append("r.Divide(%d);" % function.by_name[function.divide["by"]].slot)
        for name, text in function.divide.items():
            if name not in ("by", "when"):
                lines.append("r.Advance(%d, %s, %s);" % (function.by_name[name].slot,
                                                       function.advance_bytes(name),
                                                       function.expression(text)))
    used = "\n".join(lines)
    for p in function.parameters:
        if p.is_number and len(re.findall(r"\b%s\b" % p.name, used)) == 1:
            lines = [line.replace("const Wide %s = " % p.name, "") for line in lines]
    out.append("void Read%d(Reader& r) {\n  %s\n}\n" % (function.number, "\n  ".join(lines)))


def functions_text(functions):
    out = ["// Generated by tools/gen_adapters.py.\n"]
    for function in functions:
        emit_reader(function, out)
    out.append("constexpr LibraryFunction kFunctions[] = {")
    for function in functions:
        for i, (name, letter) in enumerate(zip(function.names, function.letters)):
            out.append('    {%d, %d, "%s", \'%s\', %d, "%s", &Read%d},' % (
                function.number + i, function.number, name, letter or "-", function.slots, function.kinds,
                function.number))
    out.append("};\n")
    return "\n".join(out)


def numbers_text(functions):
    out = ["// Generated by tools/gen_adapters.py: the number of each row's first function.",
           "#ifndef WARPLINE_PROTO_ADAPTERS_CUBLAS_NUMBERS_H_",
           "#define WARPLINE_PROTO_ADAPTERS_CUBLAS_NUMBERS_H_\n", "#include <cstdint>\n",
           "namespace warpline::cublas {\n"]
    for function in functions:
        out.append("constexpr uint32_t %s = %d;  // %s" % (function.constant, function.number,
                                                         function.doc))
    out += ["\n}  // namespace warpline::cublas\n",
            "#endif  // WARPLINE_PROTO_ADAPTERS_CUBLAS_NUMBERS_H_\n"]
    return "\n".join(out)


def letter_bytes(letter):
    return {"H": 2, "S": 4, "D": 8, "C": 8, "Z": 16}.get(letter, 0)


def entry_text(function, i):
    name, letter = function.names[i], function.letters[i]
    declared = ", ".join(["struct cublasContext* handle"] +
                         ["%s %s" % (p.c_type(), p.name) for p in function.parameters])
    out = ["int %s(%s) {" % (name, declared), "  uint64_t values[%d];" % function.slots,
           "  int status = warpline_begin(handle);"]
    result = None
    for p in function.parameters:
        if p.is_scalar:
            size = str(letter_bytes(letter) // (2 if p.kind == "real" else 1))
            if function.scalars == "COMPUTE":
                size = "(int)BlasScalarBytes(computeType, Ctype)"
            out.append("  if (status == 0) status = warpline_scalar(handle, %s, %s, &values[%d]);" % (
                p.name, size, p.slot))
        elif p.kind == "result":
            size = 4 if function.memory.get(p.name) == "INT32" else letter_bytes(letter)
            result = (p, size)
        elif p.kind == "algo":
            out.append("  values[%d] = (uint64_t)(int64_t)warpline_algorithm(%s);" % (p.slot, p.name))
        elif p.is_number:
            out.append("  values[%d] = (uint64_t)(int64_t)%s;" % (p.slot, p.name))
        else:
            out.append("  values[%d] = (uint64_t)(uintptr_t)%s;" % (p.slot, p.name))
    call = "handle, %d, values, %d" % (function.number + i, function.slots)
    if result:
        call += ", %d, %s, %d" % (result[0].slot, result[0].name, result[1])
    out += ["  if (status == 0) status = warpline_call%s(%s);" % ("_for" if result else "", call),
            "  return status;", "}"]
    wide = [p for p in function.parameters if p.kind == "int"]
    if wide and not any(p.kind == "result" and function.memory.get(p.name) == "INT32"
                        for p in function.parameters):
        declared = ", ".join(["struct cublasContext* handle"] +
                             ["%s %s" % (p.c_type(True), p.name) for p in function.parameters])
        given = ", ".join(["handle"] + [("(int)" if p.kind == "int" else "") + p.name
                                        for p in function.parameters])
        fits = " && ".join("warpline_fits(%s)" % p.name for p in wide)
        out += ["int %s_64(%s) {" % (name, declared),
                "  return %s ? %s(%s) : kNotSupported;" % (fits, name, given), "}"]
    return "\n".join(out) + "\n"


def entries_text(functions):
    out = ["/* Generated by tools/gen_adapters.py. */\n"]
    for function in functions:
        if function.by_hand:
            continue
        out += [entry_text(function, i) for i in range(len(function.names))]
    return "\n".join(out)


def thunks_text(functions):
    out = ["// Generated by tools/gen_adapters.py: WARPLINE_THUNK(number, name, types, arguments).\n"]
    for function in functions:
        if function.by_hand:
            continue
        types, arguments = ["void*"], ["handle"]
        for p in function.parameters:
            types.append(p.c_type())
            if p.is_scalar:
                arguments.append("scalars.At(%d)" % p.slot)
            elif p.is_number:
                arguments.append("static_cast<%s>(v[%d])" % (p.c_type(), p.slot))
            else:
                arguments.append("reinterpret_cast<%s>(v[%d])" % (p.c_type(), p.slot))
        for i, name in enumerate(function.names):
            out.append("WARPLINE_THUNK(%d, %s, (%s), (%s))" % (
                function.number + i, name, ", ".join(types), ", ".join(arguments)))
    return "\n".join(out) + "\n"


def slots_text(functions):
    out = ["/* Generated by tools/gen_adapters.py: the numbers of functions that are written by hand, and the",
           " * places of their values. C and C++. */",
           "#ifndef WARPLINE_PROTO_ADAPTERS_CUBLAS_SLOTS_H_", "#define WARPLINE_PROTO_ADAPTERS_CUBLAS_SLOTS_H_\n",
           "#ifdef __cplusplus", "namespace warpline {", "#endif\n"]
    for function in functions:
        if not function.by_hand:
            continue
        out.append("enum %sSlot {" % function.constant[1:])
        out.append("  %sNumber = %d,  /* %s */" % (function.constant, function.number, function.doc))
        for p in function.parameters:
            out.append("  %s%s = %d," % (function.constant, p.name[0].upper() + p.name[1:], p.slot))
        out.append("  %sValues = %d\n};\n" % (function.constant, function.slots))
    out += ["#ifdef __cplusplus", "}  // namespace warpline", "#endif\n"]
    out.append("#endif /* WARPLINE_PROTO_ADAPTERS_CUBLAS_SLOTS_H_ */")
    return "\n".join(out) + "\n"


def read_table(text):
    table = tomllib.loads(text)
    require(set(table) == {"library", "soname", "function"}, "the table", "unknown keys")
    functions = [Function(row) for row in table["function"]]
    next_number = 1
    for function in functions:
        require(function.number == next_number, function.where,
                "its number is %d, and the next one is %d" % (function.number, next_number))
        next_number += len(function.names)
    return functions


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    makers = {"functions": functions_text, "numbers": numbers_text, "entries": entries_text,
              "thunks": thunks_text, "slots": slots_text}
    for name in makers:
        parser.add_argument("--" + name)
    args = parser.parse_args(argv)
    try:
        with open(args.table, encoding="utf-8") as source:
            functions = read_table(source.read())
        for name, make in makers.items():
            path = getattr(args, name)
            if path:
                with open(path, "w", encoding="utf-8") as out:
                    out.write(make(functions))
    except (TableError, tomllib.TOMLDecodeError) as error:
        print("%s: %s" % (args.table, error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
