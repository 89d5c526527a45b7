"""What lies in the bytes of commands, replies and notices (proto/calls.toml), one line each."""
import tomllib


def _fields(row, name):
    return ",".join("%s:%s" % (field[0], field[1]) for field in row.get(name, []))


def layouts(path):
    with open(path, "rb") as file:
        table = tomllib.load(file)
    lines = ["right %s %s" % (row["name"], row.get("right", "-")) for row in table["capability"]]
    for kind in ("command", "notice"):
        for number, row in enumerate(table[kind], 1):
            lines.append("layout %s %d %s %s|%s -> %s|%s%s" % (
                kind, number, row["name"], _fields(row, "fields"), row.get("tail", ""),
                _fields(row, "reply"), row.get("reply_tail", ""),
                " ordered" if row.get("ordered") else ""))
    return lines
