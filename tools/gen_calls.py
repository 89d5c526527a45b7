#!/usr/bin/env python3
"""Generates the wire encoding, the worker's dispatch and the reference page from proto/calls.toml.

gen_calls.py TABLE --commands_h=F --dispatch_h=F --calls_inc=F --calls_md=F

--commands_h   structs of commands, replies and notices, and the table of their properties
--dispatch_h   DispatchCommand(): id -> handler.On(const cmd::X&, tail)
--calls_inc    WARPLINE_ENTRY(symbol) for every exported symbol that the client implements
--calls_md     the reference page
"""
import argparse
import re
import sys
import tomllib

SIZES = {"u64": 8, "i64": 8, "u32": 4, "i32": 4, "f32": 4}
TYPES = {"u64": "uint64_t", "i64": "int64_t", "u32": "uint32_t", "i32": "int32_t", "f32": "float"}
LANES = {"stream", "control", "linker", "decode"}
AFTER = {"", "event", "module", "all lanes issued"}
COMMAND_EFFECTS = {"one_way", "round_trip"}
CALL_EFFECTS = {"local", "cached", "one_way", "round_trip"}
ERRORS = {"argument", "resource", "execution"}
CAPABILITIES = {"launch", "load", "copy_in", "copy_out", "memory", "stream"}
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


def check(table):
    names = set()
    for c in table["command"]:
        where = "command " + c["name"]
        require(c["name"] not in names, where, "declared twice")
        names.add(c["name"])
        require(c["lane"] in LANES, where, "lane %r" % c["lane"])
        require(c["after"] in AFTER, where, "after %r" % c["after"])
        require(c["effect"] in COMMAND_EFFECTS, where, "effect %r" % c["effect"])
        require(set(c["errors"]) <= ERRORS, where, "errors %r" % c["errors"])
        require(c["capability"] in CAPABILITIES, where, "capability %r" % c["capability"])
        require(JOURNAL.match(c["journal"]), where, "journal %r" % c["journal"])
        require(("reply" in c) == (c["effect"] == "round_trip"), where,
                "a reply belongs to a round trip and to nothing else")
        check_fields(c["fields"], where)
        check_fields(c.get("reply", []), where)
        if c["lane"] == "stream":
            require("stream" in [f[0] for f in c["fields"]], where, "lane without field `stream`")
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
    return sorted({c["journal"].split()[1] for c in table["command"] if c["journal"]})


def journal_entry(command, kinds):
    """The initialiser of a CommandInfo::journal."""
    if not command["journal"]:
        return "{}"
    action, kind = command["journal"].split()
    fields = command["fields"]
    parents = [k for k in kinds if k != kind]
    return "{JournalAction::k%s, JournalKind::k%s, %d, %d, %d}" % (
        camel(action), camel(kind), offset_of(fields, [kind]), offset_of(fields, parents),
        offset_of(fields, ["attribute", "limit"]))


def camel(word):
    return "".join(w.capitalize() for w in re.split(r"[ _]", word)) or "Nothing"


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
    out.append("enum class LaneKind : uint8_t { kStream, kControl, kLinker, kDecode };")
    out.append("enum class After : uint8_t { %s };" % ", ".join(
        "k" + camel(a) for a in ["", "event", "module", "all lanes issued"]))
    out.append("enum class Effect : uint8_t { kOneWay, kRoundTrip };")
    out.append("enum class Capability : uint8_t { %s };" % ", ".join(
        "k" + camel(c) for c in sorted(CAPABILITIES)))
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

// One row of the table of calls.
struct CommandInfo {
  CommandId id;
  const char* name;
  LaneKind lane;
  After after;
  Effect effect;
  Capability capability;
  const char* journal;
  uint16_t body_bytes;
  bool has_tail;
  JournalRule rule;
  int16_t destination;  // Where in its struct the address lies that it writes to; -1 for none.
  uint16_t version;     // Of the protocol, that it came with.
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
    out.append("\ninline constexpr CommandInfo kCommandTable[kCommandCount] = {")
    for c, version in zip(table["command"], versions(table)):
        out.append("    {CommandId::k%s, \"%s\", LaneKind::k%s, After::k%s, Effect::k%s, "
                   "Capability::k%s, \"%s\", CommandTraits<cmd::%s>::kBodyBytes, %s, %s, %d, %d}," % (
                       c["name"], c["name"], camel(c["lane"]), camel(c["after"]),
                       camel(c["effect"]), camel(c["capability"]), c["journal"], c["name"],
                       "true" if c["tail"] else "false", journal_entry(c, kinds),
                       offset_of(c["fields"], ["dst"]), version))
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

#include "proto/commands.h"

namespace warpline {

// Calls handler.On(const cmd::X& command, std::string_view tail) for a command whose length has
// been checked: `body` holds at least kCommandTable[id - 1].body_bytes. `id` must be known.
template <typename Handler>
auto DispatchCommand(CommandId id, std::string_view body, Handler& handler) {
  switch (id) {"""]
    for c in table["command"]:
        out.append("    case CommandId::k%s: {" % c["name"])
        out.append("      cmd::%s command;" % c["name"])
        if c["fields"]:
            out.append("      std::memcpy(&command, body.data(), sizeof(command));")
        out.append("      return handler.On(command, body.substr(CommandTraits<cmd::%s>::kBodyBytes));"
                   % c["name"])
        out.append("    }")
    out.append("""  }
  __builtin_unreachable();
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_DISPATCH_H_""")
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
    out += ["", "## Commands", "", "| command | effect | lane | waits for | capability | journal | |",
            "|---|---|---|---|---|---|---|"]
    for c in table["command"]:
        out.append("| %s | %s | %s | %s | %s | %s | %s |" % (
            c["name"], c["effect"], c["lane"], c["after"], c["capability"], c["journal"], c["doc"]))
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", nargs="+")
    writers = {"commands_h": commands_h, "dispatch_h": dispatch_h, "calls_inc": calls_inc,
               "calls_md": calls_md}
    for name in writers:
        parser.add_argument("--" + name)
    args = parser.parse_args()
    table = {"command": [], "notice": [], "call": [], "version": []}
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
