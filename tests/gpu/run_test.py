#!/usr/bin/env python3
"""How the runner of tests/gpu reads, compares and counts; no GPU needed."""
import ast
import io
import contextlib
import pathlib
import sys
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import op_db  # noqa: E402
import run  # noqa: E402
import sides  # noqa: E402
from cases import report  # noqa: E402


def results_of(*reports):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for one in reports:
            report.report(*one)
    return report.parse("noise\n" + out.getvalue())[0]


class Comparison(unittest.TestCase):
    def test_same_bits_are_the_same(self):
        one = results_of(("a", [1.0, 2.0]), ("b", "text"))
        self.assertEqual(run.compare(one, one), ("same", "2 results"))

    def test_tolerance_is_of_the_scale_and_has_to_be_stated(self):
        exact = results_of(("a", [100.0, 0.0]))
        stated = results_of(("a", [100.0, 0.0], 1e-3))
        near, far = results_of(("a", [100.0, 0.09])), results_of(("a", [100.0, 0.2]))
        self.assertEqual(run.compare(stated, near)[0], "close")
        self.assertEqual(run.compare(stated, far)[0], "DIFFERENT")
        self.assertEqual(run.compare(exact, near)[0], "DIFFERENT")

    def test_infinities_and_nans_count(self):
        one = results_of(("a", [float("nan"), float("inf"), 1.0], 0.1))
        other = results_of(("a", [float("nan"), float("inf"), 1.01], 0.1))
        worse = results_of(("a", [float("nan"), 1.0, 1.0], 0.1))
        self.assertEqual(run.compare(one, other)[0], "close")
        self.assertEqual(run.compare(one, worse)[0], "DIFFERENT")

    def test_missing_and_other_results_differ(self):
        one = results_of(("a", 1), ("b", 2))
        self.assertEqual(run.compare(one, one[:1])[0], "DIFFERENT")
        self.assertEqual(run.compare(one, one[::-1])[0], "DIFFERENT")
        self.assertIn("'x'] became ['y']", run.compare(results_of(("a", "x")),
                                                       results_of(("a", "y")))[1])


class FakeSides:
    """run() as Sides has it; `outcomes` maps a side to (status, stdout)."""

    def __init__(self, **outcomes):
        self._outcomes = outcomes

    def run(self, side, *_):
        status, output = self._outcomes[side]
        return status, output, "why\n", 1.0


def verdict_of(remote_only=False, **outcomes):
    case = types.SimpleNamespace(name="c", script="s", function="f", seconds=1, env={}, gpus=1)
    args = types.SimpleNamespace(remote_only=remote_only, logs=None)
    return run.run_case(case, FakeSides(**outcomes), args)["verdict"]


GOOD = '@result {"name": "a", "digest": "1", "shape": []}\n'


class Verdicts(unittest.TestCase):
    def test_what_natively_fails_is_invalid_and_what_remotely_fails_has_failed(self):
        good, bad = (0, GOOD), (1, GOOD)
        self.assertEqual(verdict_of(native=good, remote=good), "same")
        self.assertEqual(verdict_of(native=bad, remote=good), "invalid")
        self.assertEqual(verdict_of(native=good, remote=bad), "FAILED")
        self.assertEqual(verdict_of(native=good, remote=("timeout", GOOD)), "FAILED")
        self.assertEqual(verdict_of(remote_only=True, remote=good), "passed")

    def test_a_program_without_results_is_not_good(self):
        self.assertEqual(verdict_of(native=(0, GOOD), remote=(0, "")), "FAILED")

    def test_a_case_may_skip_itself(self):
        self.assertEqual(verdict_of(native=(0, "@skip one GPU\n"), remote=(0, GOOD)), "skipped")


class Operators(unittest.TestCase):
    @staticmethod
    def note(value, repeatable=True):
        figures = {"digest": str(value), "shape": [1], "figures": [str(value)], "scale": 1.0}
        return {"samples": [{"same": repeatable, "outputs": [figures]}], "digest": str(value),
                "repeatable": repeatable}

    def test_repeatable_operators_must_agree_in_every_bit(self):
        self.assertEqual(op_db.agree(self.note(1.0), self.note(1.0), 1e-2), "same")
        self.assertEqual(op_db.agree(self.note(1.0), self.note(1.001), 1e-2),
                         "sample 0: other values")

    def test_others_within_the_tolerance(self):
        self.assertEqual(op_db.agree(self.note(1.0, False), self.note(1.001), 1e-2), "close")
        self.assertIn("differs", op_db.agree(self.note(1.0, False), self.note(1.1), 1e-2))

    def test_deaths_count_on_the_side_where_they_happen(self):
        dead = {"op": "x", "dead": True}
        self.assertEqual(op_db.agree(dead, self.note(1.0), 0), "invalid")
        self.assertEqual(op_db.agree(self.note(1.0), dead, 0), "the process ended or hung")


class Listing(unittest.TestCase):
    def test_every_listed_case_is_a_function_of_its_script(self):
        cases = run.listed()
        self.assertEqual(len(cases), len({case.name for case in cases}))
        for case in cases:
            tree = ast.parse(case.script.read_text(encoding="utf-8"))
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            self.assertIn(case.function, functions, case.script.name)

    def test_environments_of_the_sides_are_apart(self):
        args = types.SimpleNamespace(bundle=HERE, run_flag=["--memory=1GiB"], python="python3")
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            both = sides.Sides(args, "host:1", folder)
            native, remote = (both.environment(side, "use") for side in ("native", "remote"))
        self.assertNotIn("WARPLINE_ENDPOINT", native)
        self.assertEqual(remote["WARPLINE_ENDPOINT"], "host:1")
        self.assertNotEqual(native["TRITON_CACHE_DIR"], remote["TRITON_CACHE_DIR"])
        self.assertEqual(both.command("remote", "s.py", "f")[1:],
                         ["run", "--memory=1GiB", "--", "python3", "s.py", "f"])
        self.assertEqual(both.command("remote", "s.py", gpus=2)[1:],
                         ["run", "--gpus=2", "--memory=1GiB", "--", "python3", "s.py"])
        self.assertEqual(both.command("native", "s.py", gpus=2), ["python3", "s.py"])


if __name__ == "__main__":
    unittest.main()
