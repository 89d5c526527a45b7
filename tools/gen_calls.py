#!/usr/bin/env python3
"""Generates the wire encoding, the worker's dispatch and the reference page from proto/calls.toml.

gen_calls.py TABLE... --commands_h=F --dispatch_h=F --lists_h=F --spans_h=F --calls_inc=F --calls_md=F

--commands_h   structs of commands, replies and notices, and the table of their properties
--dispatch_h   DispatchCommand(): id -> families.FAMILY().On(const cmd::X&, tail)
--lists_h      the commands of each family and of each executor, for declarations
--spans_h      ReadsOf() and WritesOf(): the device memory that a command names
--calls_inc    WARPLINE_ENTRY(symbol) for every exported symbol that the client implements
--calls_md     the reference page
"""
import argparse
import re
import sys
import tomllib

SIZES = {"u64": 8, "i64": 8, "u32": 4, "i32": 4, "f32": 4}
TYPES = {"u64": "uint64_t", "i64": "int64_t", "u32": "uint32_t", "i32": "int32_t", "f32": "float"}
EXECUTORS = {"stream", "control", "linker", "decode"}
AFTER = ["", "events", "objects", "all streams"]
ENGINES = ["", "compute", "copy_in", "copy_out"]
REPLAYS = ["", "code", "data"]
COMMAND_EFFECTS = {"one_way", "round_trip"}
CALL_EFFECTS = {"local", "cached", "one_way", "round_trip"}
ERRORS = {"argument", "resource", "execution"}
COMMAND_KEYS = {"name", "doc", "family", "executor", "after", "effect", "capability", "engine", "reads",
                "writes", "journal", "replay", "dropped", "audit", "fields", "tail", "reply",
                "reply_tail"}
JOURNAL = re.compile(r"^$|^(create|destroy|set) [a-z]+$")


class TableError(Exception):
    pass


def require(condition, where, what):
    if not condition:
        raise TableError("%s: %s" % (where, what))


def parse_type(text, where):
    """Returns (element type, count); count is 0 for a scalar."""
    m = re.fullmatch(r"([a-z]\d+)(?:\[(\d+)\])?", text)
    require(m and m[1] in TYPES, where, "unknown type %r" % text)
    return m[1], int(m[2] or 0)


def check_fields(fields, where):
    offset = 0
    for name, text in fields:
        require(re.fullmatch(r"[a-z][a-z0-9_]*", name), where, "bad field name %r" % name)
        element, count = parse_type(text, where)
        require(offset % SIZES[element] == 0, where, "field %s leaves a hole" % name)
        offset += SIZES[element] * max(count, 1)
    require(offset % 8 == 0, where, "fields end at %d, not a multiple of 8" % offset)


def check_capabilities(table):
    rights = set()
    for c in table["capability"]:
        where = "capability " + c["name"]
        if "right" in c:
            require(0 < c["right"] < 64 and c["right"] not in rights, where, "right %d" % c["right"])
            rights.add(c["right"])
    return {c["name"] for c in table["capability"]}


def check_columns(c, capabilities, where):
    """The columns of a command that have a fixed set of values."""
    require(set(c) <= COMMAND_KEYS, where, "unknown columns %s" % sorted(set(c) - COMMAND_KEYS))
    require(re.fullmatch(r"[a-z]+", c["family"]), where, "family %r" % c["family"])
    require(c["executor"] in EXECUTORS, where, "executor %r" % c["executor"])
    require(c.get("after", "") in AFTER, where, "after %r" % c.get("after"))
    require(c["effect"] in COMMAND_EFFECTS, where, "effect %r" % c["effect"])
    require(c["capability"] in capabilities, where, "capability %r" % c["capability"])
    require(c.get("engine", "") in ENGINES, where, "engine %r" % c.get("engine"))
    require(JOURNAL.match(c.get("journal", "")), where, "journal %r" % c.get("journal"))
    require(c.get("replay", "") in REPLAYS, where, "replay %r" % c.get("replay"))


def check_agreement(c, where):
    """What one column of a command says of another."""
    field_names = [f[0] for f in c["fields"]]
    executor, after, engine = c["executor"], c.get("after", ""), c.get("engine", "")
    require(("reply" in c) == (c["effect"] == "round_trip"), where,
            "a reply belongs to a round trip and to nothing else")
    require(executor != "stream" or "stream" in field_names, where, "executor without field `stream`")
    require(not engine or executor == "stream", where, "only streams keep engines busy")
    require(not engine.startswith("copy") or c["capability"] == engine, where,
            "a copy of host memory needs the right of its direction")
    require(not after or executor in ("stream", "control"), where, "nothing waits in this executor")
    require(after != "objects" or executor == "stream", where, "the control executor is in order anyway")
    require(not c.get("dropped") or executor == "stream", where, "only work of streams is dropped")
    require(not engine or c.get("dropped"), where, "what keeps an engine busy is work to be dropped")
    for column in ("reads", "writes"):
        require(len(c.get(column, [])) <= 1, where, "more than one span in " + column)
        for address, extent in c.get(column, []):
            require(address in field_names, where, "no field %s" % address)
            extent_expression(extent, field_names, bool(c.get("tail")), where)


def check(table):
    names = set()
    capabilities = check_capabilities(table)
    for c in table["command"]:
        where = "command " + c["name"]
        require(c["name"] not in names, where, "declared twice")
        names.add(c["name"])
        check_columns(c, capabilities, where)
        check_fields(c["fields"], where)
        check_fields(c.get("reply", []), where)
        check_agreement(c, where)
    for number, v in enumerate(table["version"], 2):
        where = "version %s" % v["number"]
        require(v["number"] == number, where, "versions are numbered from 2, in order")
        require(v["after"] in names, where, "unknown command %s" % v["after"])
    for n in table["notice"]:
        check_fields(n["fields"], "notice " + n["name"])
    symbols = set()
    for c in table.get("call", []):
        where = "call " + c["name"]
        require(c["effect"] in CALL_EFFECTS, where, "effect %r" % c["effect"])
        require(set(c.get("errors", [])) <= ERRORS, where, "errors %r" % c.get("errors"))
        require(c["effect"] == "local" or c.get("commands"), where,
                "a call that is not local sends something")
        for s in c["exports"]:
            require(s not in symbols, where, "%s exported twice" % s)
            symbols.add(s)
        for k in c.get("commands", []):
            require(k in names, where, "unknown command %s" % k)


def extent_term(text, fields, has_tail, where):
    """One factor of an extent as C++."""
    text = text.strip()
    call = re.fullmatch(r"(rows|box)\((.*)\)", text)
    if call:
        inner = [extent_expression(part, fields, has_tail, where) for part in call[2].split(",")]
        require(len(inner) == {"rows": 3, "box": 5}[call[1]], where, "extent %r" % text)
        return "%sBytes(%s)" % (camel(call[1]), ", ".join(inner))
    if text == "tail":
        require(has_tail, where, "there is no tail")
        return "tail.size()"
    if text.isdigit():
        return text + "u"
    require(text in fields, where, "no field %s" % text)
    return "command." + text


def extent_expression(text, fields, has_tail, where):
    """An extent of column `reads` or `writes` as C++: saturating products of terms."""
    factors = re.findall(r"(?:rows|box)\([^)]*\)|[^*]+", text)
    expression = extent_term(factors[0], fields, has_tail, where)
    for factor in factors[1:]:
        expression = "Product(%s, %s)" % (expression, extent_term(factor, fields, has_tail, where))
    return expression


def struct(name, fields):
    out = ["struct %s {" % name]
    for field, text in fields:
        element, count = parse_type(text, name)
        if count:
            out.append("  %s %s[%d] = {};" % (TYPES[element], field, count))
        else:
            out.append("  %s %s = 0;" % (TYPES[element], field))
    out.append("};")
    size = sum(SIZES[parse_type(t, name)[0]] * max(parse_type(t, name)[1], 1) for _, t in fields)
    if size:
        out.append("static_assert(sizeof(%s) == %d);" % (name, size))
    return out


def offset_of(fields, wanted):
    """Where the first field of one of these names lies in the struct; -1 when there is none."""
    offset = 0
    for name, text in fields:
        if name in wanted:
            return offset
        element, count = parse_type(text, name)
        offset += SIZES[element] * max(count, 1)
    return -1


def versions(table):
    """The version of the protocol that each command came with, in the order of the table."""
    ends = {v["after"]: v["number"] for v in table["version"]}
    version = 1
    found = []
    for c in table["command"]:
        found.append(version)
        version = ends.get(c["name"], version)
    return found


def journal_kinds(table):
    return sorted({c["journal"].split()[1] for c in table["command"] if c.get("journal")})


def journal_entry(command, kinds):
    """The initialiser of a CommandInfo::journal."""
    if not command.get("journal"):
        return "{}"
    action, kind = command["journal"].split()
    fields = command["fields"]
    parents = [k for k in kinds if k != kind]
    return "{JournalAction::k%s, JournalKind::k%s, %d, %d, %d}" % (
        camel(action), camel(kind), offset_of(fields, [kind]), offset_of(fields, parents),
        offset_of(fields, ["attribute", "limit"]))


def camel(word):
    return "".join(w.capitalize() for w in re.split(r"[ _]", word)) or "Nothing"


def values(words):
    """The enumerators for words of the table; the empty one is kNothing."""
    return ", ".join("k" + camel(word) for word in words)


def commands_h(table):
    out = ["""// Generated from proto/calls.toml by tools/gen_calls.py. Do not edit.
//
// Commands travel client to worker, replies and notices worker to client. Each is a header, then
// the struct below as it lies in memory (x86-64), then an optional tail, padded to 8 bytes.
#ifndef WARPLINE_PROTO_COMMANDS_H_
#define WARPLINE_PROTO_COMMANDS_H_

#include <cstdint>

namespace warpline {
"""]
    out.append("enum class CommandId : uint16_t {")
    for i, c in enumerate(table["command"], 1):
        out.append("  k%s = %d,  // %s" % (c["name"], i, c["doc"]))
    out.append("};\ninline constexpr int kCommandCount = %d;\n" % len(table["command"]))
    out.append("// kReply answers the round trip `seq`; the others are notices.")
    out.append("enum class ReplyId : uint16_t {\n  kReply = 1,")
    for i, n in enumerate(table["notice"], 2):
        out.append("  k%s = %d,  // %s" % (n["name"], i, n["doc"]))
    out.append("};")
    out.append("inline constexpr ReplyId kLastReplyId = ReplyId::k%s;\n" %
               table["notice"][-1]["name"])
    out.append("// Whether the client handles it before it takes anything for complete that is reported later.")
    ordered = ["Reply"] + [n["name"] for n in table["notice"] if n.get("ordered", False)]
    out.append("constexpr bool IsOrdered(ReplyId id) {\n  return %s;\n}\n" %
               " || ".join("id == ReplyId::k" + name for name in ordered))
    out.append("enum class ExecutorKind : uint8_t { kStream, kControl, kLinker, kDecode };")
    out.append("enum class After : uint8_t { %s };" % values(AFTER))
    out.append("enum class Effect : uint8_t { kOneWay, kRoundTrip };")
    out.append("// The engine of the device that a command keeps busy.")
    out.append("enum class Engine : uint8_t { %s };" % values(ENGINES))
    out.append("// Whether the next worker makes a noted command again, and whether before data.")
    out.append("enum class Replay : uint8_t { %s };" % values(REPLAYS))
    out.append("enum class Capability : uint8_t { %s };" % values(
        [c["name"] for c in table["capability"]]))
    out.append("enum class JournalAction : uint8_t { kNone, kCreate, kSet, kDestroy };")
    kinds = journal_kinds(table)
    out.append("enum class JournalKind : uint8_t { %s };" % ", ".join("k" + camel(k) for k in kinds))
    out.append("""
// How a command is kept so that its session survives its worker (server/worker/continuity/journal.h). Offsets
// are into the command's struct, -1 for what it lacks.
struct JournalRule {
  JournalAction action = JournalAction::kNone;
  JournalKind kind{};
  int16_t handle = -1;     // u64: the object that it creates, sets or destroys.
  int16_t parent = -1;     // u64: the object of another kind that this one belongs to.
  int16_t attribute = -1;  // 32 bits: which of the object's settings it sets.
};

// One row of the capabilities. `right` is the bit in a token, 0 for what every session may.
struct CapabilityInfo {
  Capability capability;
  const char* name;
  uint64_t right;
};

// One row of the table of commands.
struct CommandInfo {
  CommandId id;
  const char* name;
  ExecutorKind executor;
  After after;
  Effect effect;
  Capability capability;
  Engine engine;
  Replay replay;
  bool dropped;  // StreamCancel drops it where it has not begun.
  bool audit;    // An operator wants to hear when it is refused.
  const char* journal;
  uint16_t body_bytes;
  bool has_tail;
  JournalRule rule;
  uint16_t version;  // Of the protocol, that it came with.
};
""")
    out.append("namespace cmd {\n")
    for c in table["command"]:
        out.append("// %s" % c["doc"])
        out += struct(c["name"], c["fields"])
        if c.get("reply"):
            out += struct(c["name"] + "Reply", c["reply"])
        out.append("")
    out.append("}  // namespace cmd\n\nnamespace notice {\n")
    for n in table["notice"]:
        out.append("// %s" % n["doc"])
        out += struct(n["name"], n["fields"])
        out.append("")
    out.append("}  // namespace notice\n")
    out.append("template <typename T>\nstruct CommandTraits;\n")
    for c in table["command"]:
        out.append("template <>\nstruct CommandTraits<cmd::%s> {\n"
                   "  static constexpr CommandId kId = CommandId::k%s;\n"
                   "  static constexpr uint16_t kBodyBytes = %s;\n};" % (
                       c["name"], c["name"],
                       "sizeof(cmd::%s)" % c["name"] if c["fields"] else "0"))
    out.append("\ninline constexpr CapabilityInfo kCapabilityTable[] = {")
    for c in table["capability"]:
        right = "uint64_t{1} << %d" % c["right"] if "right" in c else "0"
        out.append("    {Capability::k%s, \"%s\", %s}," % (camel(c["name"]), c["name"], right))
    out.append("};")
    out.append("\ninline constexpr CommandInfo kCommandTable[kCommandCount] = {")
    for c, version in zip(table["command"], versions(table)):
        row = ["CommandId::k" + c["name"], '"%s"' % c["name"], "ExecutorKind::k" + camel(c["executor"]),
               "After::k" + camel(c.get("after", "")), "Effect::k" + camel(c["effect"]),
               "Capability::k" + camel(c["capability"]), "Engine::k" + camel(c.get("engine", "")),
               "Replay::k" + camel(c.get("replay", "")), "true" if c.get("dropped") else "false",
               "true" if c.get("audit") else "false",
               '"%s"' % c.get("journal", ""), "CommandTraits<cmd::%s>::kBodyBytes" % c["name"],
               "true" if c.get("tail") else "false", journal_entry(c, kinds), str(version)]
        out.append("    {%s}," % ", ".join(row))
    out.append("""};

// The row of a command whose id has been checked.
constexpr const CommandInfo& FindCommand(CommandId id) {
  return kCommandTable[static_cast<int>(id) - 1];
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_COMMANDS_H_""")
    return "\n".join(out) + "\n"


def dispatch_h(table):
    out = ["""// Generated from proto/calls.toml by tools/gen_calls.py. Do not edit.
#ifndef WARPLINE_PROTO_DISPATCH_H_
#define WARPLINE_PROTO_DISPATCH_H_

#include <cstring>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "proto/commands.h"

namespace warpline {

// Calls families.FAMILY().On(const cmd::X& command, std::string_view tail), by column `family`, for
// a command whose length has been checked: `body` holds at least kCommandTable[id - 1].body_bytes.
// `id` must be known. On which thread the families may be called is the caller's business.
template <typename Families>
void DispatchCommand(CommandId id, std::string_view body, Families& families)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  switch (id) {"""]
    for c in table["command"]:
        out.append("    case CommandId::k%s: {" % c["name"])
        out.append("      cmd::%s command;" % c["name"])
        if c["fields"]:
            out.append("      std::memcpy(&command, body.data(), sizeof(command));")
        out.append("      return families.%s().On(command, "
                   "body.substr(CommandTraits<cmd::%s>::kBodyBytes));" % (c["family"], c["name"]))
        out.append("    }")
    out.append("""  }
  __builtin_unreachable();
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_DISPATCH_H_""")
    return "\n".join(out) + "\n"


def command_list(macro, commands):
    lines = ["#define %s(X)" % macro] + ["  X(%s)" % c["name"] for c in commands]
    return " \\\n".join(lines) + "\n"


def lists_h(table):
    out = ["""// Generated from proto/calls.toml by tools/gen_calls.py. Do not edit.
//
// The commands of each family and of each executor, for classes that declare a function for every one:
// WARPLINE_FAMILY_COPIES(X) is X(Memset) X(CopyToDevice) and so on.
#ifndef WARPLINE_PROTO_COMMAND_LISTS_H_
#define WARPLINE_PROTO_COMMAND_LISTS_H_

#include <variant>

#include "proto/commands.h"
"""]
    for family in sorted({c["family"] for c in table["command"]}):
        out.append(command_list("WARPLINE_FAMILY_" + family.upper(),
                                [c for c in table["command"] if c["family"] == family]))
    for executor in sorted(EXECUTORS - {"decode"}):
        out.append(command_list("WARPLINE_EXECUTOR_" + executor.upper(),
                                [c for c in table["command"] if c["executor"] == executor]))
    queued = ",\n    ".join("cmd::" + c["name"] for c in table["command"] if c["executor"] != "decode")
    out.append("""namespace warpline {

// A command that an executor runs.
using AnyCommand = std::variant<
    %s>;

}  // namespace warpline

#endif  // WARPLINE_PROTO_COMMAND_LISTS_H_""" % queued)
    return "\n".join(out) + "\n"


def spans_of(table, column):
    out = ["inline MemorySpan %sOf(CommandId id, std::string_view body) {" % camel(column),
           "  switch (id) {"]
    for c in table["command"]:
        for address, extent in c.get(column, []):
            where = "command " + c["name"]
            tail = bool(c.get("tail"))
            expression = extent_expression(extent, [f[0] for f in c["fields"]], tail, where)
            out.append("    case CommandId::k%s: {" % c["name"])
            out.append("      cmd::%s command;" % c["name"])
            out.append("      std::memcpy(&command, body.data(), sizeof(command));")
            if "tail" in expression:
                out.append("      const std::string_view tail = body.substr(sizeof(command));")
            out.append("      return {command.%s, %s};" % (address, expression))
            out.append("    }")
    out.append("    default:\n      return {};\n  }\n}\n")
    return out


def spans_h(table):
    out = ["""// Generated from proto/calls.toml by tools/gen_calls.py. Do not edit.
//
// The device memory that a command names, by columns `reads` and `writes`: what it touches besides,
// as kernels do, is not known here. `body` holds at least the command's fields.
#ifndef WARPLINE_PROTO_COMMAND_SPANS_H_
#define WARPLINE_PROTO_COMMAND_SPANS_H_

#include <cstring>
#include <string_view>

#include "proto/commands.h"
#include "proto/memory_span.h"

namespace warpline {
"""]
    out += spans_of(table, "reads") + spans_of(table, "writes")
    out.append("""}  // namespace warpline

#endif  // WARPLINE_PROTO_COMMAND_SPANS_H_""")
    return "\n".join(out) + "\n"


def calls_inc(table):
    out = ["// Generated from proto/calls.toml by tools/gen_calls.py. Do not edit."]
    for c in table.get("call", []):
        for s in c["exports"]:
            out.append("WARPLINE_ENTRY(%s)" % s)
    return "\n".join(out) + "\n"


def calls_md(table):
    out = ["# Calls", "", "Generated from `proto/calls.toml`. Every driver function that is not listed",
           "returns `CUDA_ERROR_NOT_SUPPORTED` and writes one log line.", "",
           "| call | exports | effect | commands | errors | note |", "|---|---|---|---|---|---|"]
    for c in sorted(table.get("call", []), key=lambda c: c["name"]):
        out.append("| %s | %s | %s | %s | %s | %s |" % (
            c["name"], " ".join(c["exports"]), c["effect"], " ".join(c.get("commands", [])),
            ", ".join(c.get("errors", [])), c.get("note", "")))
    out += ["", "## Commands", "",
            "| command | family | effect | executor | waits for | capability | engine | reads | writes "
            "| journal | tail | reply | |", "|---" * 13 + "|"]
    for c in table["command"]:
        spans = [", ".join("`%s`: %s" % tuple(span) for span in c.get(column, []))
                 for column in ("reads", "writes")]
        out.append("| " + " | ".join(
            [c["name"], c["family"], c["effect"], c["executor"], c.get("after", ""), c["capability"],
             c.get("engine", "")] + spans + [c.get("journal", ""), c.get("tail", ""),
             ", ".join([field[0] for field in c.get("reply", [])] +
                       ([c["reply_tail"]] if "reply_tail" in c else [])), c["doc"]]) + " |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", nargs="+")
    writers = {"commands_h": commands_h, "dispatch_h": dispatch_h, "lists_h": lists_h,
               "spans_h": spans_h, "calls_inc": calls_inc, "calls_md": calls_md}
    for name in writers:
        parser.add_argument("--" + name)
    args = parser.parse_args()
    table = {"command": [], "capability": [], "notice": [], "call": [], "version": []}
    for path in args.table:
        with open(path, "rb") as f:
            part = tomllib.load(f)
        for key in table:
            table[key] += part.get(key, [])
    try:
        check(table)
    except TableError as e:
        sys.exit("gen_calls: %s" % e)
    for name, writer in writers.items():
        path = getattr(args, name)
        if path:
            with open(path, "w") as f:
                f.write(writer(table))


if __name__ == "__main__":
    main()
