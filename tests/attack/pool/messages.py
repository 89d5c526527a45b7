"""Messages of protobuf, written by hand, since what is attacked takes any."""


def varint(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """A field with a number, or with bytes, which are a text's or another message's."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
