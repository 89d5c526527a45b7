"""PyTorch's operator database: runs the samples of one slice of the operators and notes the results.

  op_db.py --dtype=float32 --slice=I/N --out=FILE --seconds=S

FILE gets one line of JSON for each operator, written when it is begun and when it is done. Operators
that FILE has already are left out, one that was begun and not done ended the process before: it is
noted as dead. Exit status 0 when the slice is done, 3 when time is up, 4 when the device is lost.
"""
import argparse
import faulthandler
import hashlib
import json
import os
import sys
import time
import types
import unittest
import warnings

try:
    import expecttest  # noqa: F401
except ImportError:  # PyTorch's test modules import it; none of it is used here.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

import torch  # noqa: E402
torch.backends.cudnn.deterministic = True  # PyTorch's test modules forbid to set it later.
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree  # noqa: E402

from report import summary  # noqa: E402

# What these return is memory as it was.
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
             "new_empty_strided", "resize_", "resize_as_")
FATAL = ("CUDA error", "device-side assert", "CUBLAS_STATUS_EXECUTION_FAILED", "context is destroyed")


def full_name(op):
    return "%s.%s" % (op.name, op.variant_test_name) if op.variant_test_name else op.name


def outputs_of(op, sample):
    torch.manual_seed(0)
    copied = sample.transform(lambda v: v.clone() if isinstance(v, torch.Tensor) else v)
    found = op(copied.input, *copied.args, **copied.kwargs)
    leaves = _pytree.tree_leaves(found)
    if op.name in UNWRITTEN:
        return [{"shape": list(v.shape)} for v in leaves if isinstance(v, torch.Tensor)]
    kept = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.is_complex():
                leaf = torch.view_as_real(leaf.resolve_conj())
            kept.append(summary(leaf))
        elif isinstance(leaf, (bool, int, float, str)):
            kept.append({"value": repr(leaf)})
        else:
            kept.append({"value": type(leaf).__name__})
    return kept


# Operators whose outputs are not all written: what was in the memory before would be compared.
UNWRITTEN = ("torch.ops.aten._efficient_attention_forward", "empty", "empty_like", "empty_permuted",
             "empty_strided", "new_empty", "new_empty_strided")


def run_operator(op, dtype, limit_s):
    """The note of one operator: per sample what came out, or the error's type."""
    # PyTorch then fills new memory, which it does only while it also looks for determinism.
    torch.use_deterministic_algorithms(full_name(op) in UNWRITTEN, warn_only=True)
    samples, repeatable = [], True
    until = time.monotonic() + limit_s
    torch.manual_seed(0)
    for sample in op.sample_inputs("cuda", dtype, requires_grad=False):
        if time.monotonic() > until:
            break
        try:
            first = outputs_of(op, sample)
            second = outputs_of(op, sample)
            same = json.dumps(first) == json.dumps(second)
            repeatable = repeatable and same
            samples.append({"same": same, "outputs": first})
        except Exception as error:  # noqa: BLE001  (the other side must fail alike)
            text = str(error)
            if any(word in text for word in FATAL):
                raise
            samples.append({"same": True, "error": type(error).__name__, "text": text[:200]})
    torch.cuda.synchronize()
    digest = hashlib.sha256(json.dumps(samples).encode()).hexdigest()[:16]
    return {"samples": samples, "repeatable": repeatable, "digest": digest}


def already(path):
    done, begun = set(), None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    note = json.loads(line)
                except ValueError:
                    continue
                if note.get("begun"):
                    begun = note["op"]
                else:
                    done.add(note["op"])
    return done, begun if begun not in done else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--slice", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--op_seconds", type=float, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, args.dtype)
    part, parts = map(int, args.slice.split("/"))
    started = time.monotonic()
    done, died = already(args.out)
    with open(args.out, "a", encoding="utf-8") as out:
        def note(**what):
            out.write(json.dumps(what) + "\n")
            out.flush()

        if died:
            note(op=died, dead=True)
            done.add(died)
        for number, op in enumerate(op_db):
            name = full_name(op)
            if number % parts != part or name in done:
                continue
            if dtype not in op.supported_dtypes("cuda"):
                continue
            if time.monotonic() - started > args.seconds:
                return 3
            note(op=name, begun=True)
            # One that hangs costs itself only: the process ends, and the next one goes on behind it.
            faulthandler.dump_traceback_later(4 * args.op_seconds, exit=True)
            try:
                note(op=name, **run_operator(op, dtype, args.op_seconds))
            except Exception as error:  # noqa: BLE001
                note(op=name, samples=[], error="%s: %s" % (type(error).__name__, str(error)[:300]))
                if any(word in str(error) for word in FATAL):
                    os._exit(4)
            faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
