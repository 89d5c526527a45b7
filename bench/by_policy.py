"""What benchmarks have in common that compare policies for two tenants of the guarded tier."""
import argparse
import pathlib
import sys

from pool import Pool


def arguments(doc, seconds, options):
    """`options` are further ones of the benchmark, with what is taken without them."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:neighbour")
    parser.add_argument("--policies", default="band", help="as for warpline serve --dispatch")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--md", type=pathlib.Path)
    for name, default in options.items():
        parser.add_argument(name, default=default)
    return parser.parse_args()


def run(args, tenants, header, rows):
    """Prints a table of what `rows(pool, policy)` yields for each policy, of which each has a scheduler and a server
    of its own with these tenants (Pool)."""
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    installation = local_server.Installation.from_bundle(args.bundle)
    lines = [header, "|---" * (header.count("|") - 1) + "|"]
    for policy in args.policies.split(","):
        flags = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + policy]
        with Pool(local_server, installation, tenants, flags) as pool:
            for row in rows(pool, pathlib.Path(policy).name):
                lines.append(row)
                print(row, flush=True)
    print("\n".join(lines))
    if args.md:
        args.md.write_text("\n".join(lines) + "\n", encoding="utf-8")
