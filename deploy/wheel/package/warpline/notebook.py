"""Adds a kernel to Jupyter whose programs run on a remote GPU.

  python -m warpline.notebook [--name=NAME] [--display_name=TEXT] [--prefix=DIR] [--python=FILE]
                              [OPTIONS OF warpline run]

Each kernel that is started holds a lease of its own as long as it runs, and a restart takes another
one. Options that are none of these are `warpline run`'s, such as --endpoint=gpuhost:14000 and
--memory=4GiB. Without --prefix the kernel is the user's own.
"""
import argparse
import json
import os
import pathlib
import re
import sys

import warpline


def folder(prefix):
    """Where Jupyter looks for kernels."""
    if prefix:
        return pathlib.Path(prefix) / "share/jupyter/kernels"
    own = os.environ.get("JUPYTER_DATA_DIR")
    return (pathlib.Path(own) if own else pathlib.Path.home() / ".local/share/jupyter") / "kernels"


def kernel(display_name, python, options):
    return {
        "argv": [warpline.program(), "run", *options, "--", python, "-m", "ipykernel_launcher",
                 "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "metadata": {"debugger": True},
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m warpline.notebook", allow_abbrev=False,
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="warpline", help="of the kernel's folder")
    parser.add_argument("--display_name", default="Python (remote GPU)")
    parser.add_argument("--prefix", help="of the installation that is to have it")
    parser.add_argument("--python", default=sys.executable, help="the interpreter")
    args, options = parser.parse_known_args(arguments)
    if not re.fullmatch(r"[A-Za-z0-9._-]+", args.name):
        parser.error("--name takes letters, digits, '.', '_' and '-'")
    wrong = [word for word in options if not re.match(r"--[a-z_]+(=|$)", word)]
    if wrong:
        parser.error("what is %s? Options of warpline run are written --name=value" % wrong[0])
    target = folder(args.prefix) / args.name
    target.mkdir(parents=True, exist_ok=True)
    path = target / "kernel.json"
    path.write_text(json.dumps(kernel(args.display_name, args.python, options), indent=1) + "\n",
                    encoding="utf-8")
    print("added kernel %s: %s" % (args.name, path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
