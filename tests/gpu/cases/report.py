"""How a case tells run.py what it computed: one line of JSON on stdout for each result.

report(name, value, rtol=0) takes numbers, strings, lists of them, and arrays of NumPy, PyTorch, CuPy
and JAX. The line carries a digest of every bit and a few figures; run.py wants the digests of both
sides to be equal, or, where rtol is given, the figures to agree to that part of the array's scale.
"""
import hashlib
import json
import math
import sys

_MARK = "@result "
_FIGURES = 16


def _as_array(value):
    """(the bits, the values) as NumPy arrays; both are the same but for types that NumPy lacks."""
    import numpy  # Not at the top: neither the runner nor the plain cases need it.
    module = type(value).__module__.split(".")[0]
    if module == "torch":
        import torch
        value = value.detach()
        if value.layout != torch.strided:
            value = value.to_dense()
        value = value.resolve_conj().resolve_neg().cpu().contiguous()
        if value.dtype.is_floating_point and value.dtype not in (torch.float16, torch.float32,
                                                                 torch.float64):
            bits = value.reshape(-1).view(torch.uint8)
            return bits.numpy(), value.to(torch.float64).numpy()
        array = value.numpy()
    elif module == "cupy":
        array = value.get()
    else:
        array = numpy.asarray(value)
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16",):
        return array.view(numpy.uint8), array.astype(numpy.float64)
    return array, array


def _plain(value):
    """What _as_array is not needed for."""
    flat = value if isinstance(value, (list, tuple)) else [value]
    return flat if all(isinstance(item, (bool, int, float, str)) for item in flat) else None


def summary(value):
    """A dict with "digest", "shape" and, for numbers, "figures" and "scale"."""
    plain = _plain(value)
    if plain is not None:
        found = {"shape": [len(plain)],
                 "digest": hashlib.sha256(repr(plain).encode()).hexdigest()[:16]}
        if not any(isinstance(item, str) for item in plain):
            found["figures"] = [repr(float(item)) for item in plain]
            found["scale"] = max([abs(float(item)) for item in plain if math.isfinite(item)],
                                 default=0.0)
        elif len(repr(plain)) < 200:
            found["text"] = repr(plain)
        return found
    import numpy
    bits, values = _as_array(value)
    text = "%s %s " % (bits.dtype.str, values.shape)
    found = {"shape": list(values.shape),
             "digest": hashlib.sha256(text.encode() + numpy.ascontiguousarray(bits).tobytes())
                       .hexdigest()[:16]}
    if values.dtype.kind in "biuf" and values.size:
        flat = values.astype(numpy.float64).reshape(-1)
        picked = flat[numpy.linspace(0, flat.size - 1, min(_FIGURES, flat.size)).astype(int)]
        with numpy.errstate(all="ignore"):
            figures = [*picked, flat.mean(), numpy.abs(flat).mean()]
            scale = numpy.abs(flat[numpy.isfinite(flat)]).max(initial=0.0)
        # repr, since JSON has no infinities.
        found["figures"] = [repr(float(figure)) for figure in figures]
        found["scale"] = float(scale)
    return found


def report(name, value, rtol=0.0):
    line = {"name": name, "rtol": rtol, **summary(value)}
    sys.stdout.write(_MARK + json.dumps(line) + "\n")
    sys.stdout.flush()


def check(name, condition):
    """A fact that must hold on both sides; a wrong one ends the case."""
    if not condition:
        raise AssertionError(name)
    report(name, True)


def skip(reason):
    sys.stdout.write("@skip %s\n" % reason)
    sys.stdout.flush()
    sys.exit(0)


def parse(output):
    """([results], reason for skipping or None) of what a case wrote."""
    results, reason = [], None
    for line in output.splitlines():
        if line.startswith(_MARK):
            try:
                results.append(json.loads(line[len(_MARK):]))
            except ValueError:
                results.append({"name": "unreadable", "digest": line})
        elif line.startswith("@skip "):
            reason = line[len("@skip "):]
    return results, reason


def agree(one, other):
    """"same", "close" or what differs, of two results."""
    if one["name"] != other["name"]:
        return "%s became %s" % (one["name"], other["name"])
    if one.get("digest") == other.get("digest"):
        return "same"
    if one.get("shape") != other.get("shape"):
        return "%s: shape %s became %s" % (one["name"], one.get("shape"), other.get("shape"))
    rtol = one.get("rtol", 0.0)
    if "text" in one and "text" in other:
        return "%s: %s became %s" % (one["name"], one["text"], other["text"])
    pairs = list(zip(one.get("figures", []), other.get("figures", [])))
    worst = 0.0
    scale = max(one.get("scale", 0.0), 1e-30)
    for left, right in ((float(a), float(b)) for a, b in pairs):
        if left == right or (math.isnan(left) and math.isnan(right)):
            continue
        worst = max(worst, abs(left - right) / scale)
        if math.isnan(worst):
            worst = math.inf
    if pairs and worst <= rtol:
        return "close"
    return "%s: differs by %.3g of its scale, %.3g is allowed" % (one["name"], worst, rtol)


def main(cases):
    """Runs the case that the command line names; `cases` maps names to functions."""
    cases[sys.argv[1]]()
