"""Reads and edits dynamic ELF files (64-bit, little-endian) where patchelf cannot.

Edits are in place and keep every size and offset, so they can follow any other tool.
"""
import struct

_SHT_DYNAMIC = 6
_SHT_DYNSYM = 11
_SHT_GNU_VERNEED = 0x6FFFFFFE
_STB_GLOBAL = 1
_STB_GNU_UNIQUE = 10
_SYMBOL_SIZE = 24
_DT_NEEDED = 1
_DT_RPATH = 15
_DT_RUNPATH = 29


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(5) == b"\x7fELF\x02"


def _sections(data):
    """(type, offset, size, link) of each section."""
    table, = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    for index in range(count):
        at = table + index * entry_size
        kind, = struct.unpack_from("<I", data, at + 4)
        offset, size = struct.unpack_from("<QQ", data, at + 24)
        link, = struct.unpack_from("<I", data, at + 40)
        yield kind, offset, size, link


def _string(data, at):
    return data[at:data.index(b"\0", at)].decode("ascii")


def _version_needs(data):
    """(library, version, position of its vernaux entry) of each required symbol version."""
    sections = list(_sections(data))
    for kind, offset, _, link in sections:
        if kind != _SHT_GNU_VERNEED:
            continue
        strings = sections[link][1]
        need = offset
        while True:
            _, count, file_name, first, following = struct.unpack_from("<HHIII", data, need)
            aux = need + first
            for _ in range(count):
                name, step = struct.unpack_from("<II", data, aux + 8)
                yield _string(data, strings + file_name), _string(data, strings + name), aux
                aux += step
            if following == 0:
                break
            need += following


def _dynamic_strings(data, tags):
    sections = list(_sections(data))
    for kind, offset, size, link in sections:
        if kind != _SHT_DYNAMIC:
            continue
        for at in range(offset, offset + size, 16):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag in tags:
                yield _string(data, sections[link][1] + value)


def needed_libraries(data):
    """The SONAMEs that the file, given as its bytes, needs to load."""
    return list(_dynamic_strings(data, (_DT_NEEDED,)))


def library_folders(data):
    """Where it looks for them first; $ORIGIN is the folder that it lies in."""
    return [folder for path in _dynamic_strings(data, (_DT_RPATH, _DT_RUNPATH))
            for folder in path.split(":") if folder]


def required_versions(path):
    """The symbol versions that must exist for the file to load: (library, version) pairs."""
    with open(path, "rb") as f:
        data = f.read()
    return [(library, version) for library, version, _ in _version_needs(data)]


def replace_version(path, version, older):
    """Requires `older` instead of `version`; the file must name `older` for the same library. For a
    version that no symbol is bound to any more. Returns whether `version` was required."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    needs = list(_version_needs(data))
    old = {library: aux for library, name, aux in needs if name == older}
    found = [(library, aux) for library, name, aux in needs if name == version]
    for library, aux in found:
        source = old[library]
        data[aux:aux + 4] = data[source:source + 4]  # vna_hash
        data[aux + 8:aux + 12] = data[source + 8:source + 12]  # vna_name
    if found:
        with open(path, "wb") as f:
            f.write(data)
    return bool(found)


def make_unique_symbols_global(path):
    """Unique symbols are shared by all libraries of a process whatever its loader was told
    (RTLD_LOCAL, RTLD_DEEPBIND), so a private copy must not have any. Returns how many it had."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    count = 0
    for kind, offset, size, _ in _sections(data):
        if kind != _SHT_DYNSYM:
            continue
        for info in range(offset + 4, offset + size, _SYMBOL_SIZE):
            if data[info] >> 4 == _STB_GNU_UNIQUE:
                data[info] = _STB_GLOBAL << 4 | data[info] & 15
                count += 1
    if count:
        with open(path, "wb") as f:
            f.write(data)
    return count
