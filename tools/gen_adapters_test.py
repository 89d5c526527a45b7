#!/usr/bin/env python3.11
"""The table of cuBLAS's functions: errors in it are found, and its prototypes are NVIDIA's.

The second is tested where a toolkit has cublas_api.h.
"""
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gen_adapters  # noqa: E402  (beside this file)

TABLE = pathlib.Path("proto/adapters/cublas.toml")
HEADER = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include/cublas_api.h"
HEAD = 'library = "cublas"\nsoname = "libcublas.so.13"\n[[function]]\n'
GOOD = {"name": '"cublas{S,D}f_v2"', "number": "1", "doc": '"x"', "work": '"n"',
        "parameters": '["op trans", "int n", "in x", "int incx"]',
        "memory.x": '"vector(n, incx)"'}
KINDS = {"cublasOperation_t": "op", "cublasSideMode_t": "side", "cublasFillMode_t": "fill",
         "cublasDiagType_t": "diag", "cudaDataType": "type", "cublasComputeType_t": "compute",
         "cublasGemmAlgo_t": "algo", "int": "int", "long long int": "long"}


def table(**changes):
    row = dict(GOOD)
    row.update({key.replace("__", "."): value for key, value in changes.items()})
    return HEAD + "\n".join("%s = %s" % item for item in row.items() if item[1] is not None)


class TableTest(unittest.TestCase):
    def refused(self, text):
        with self.assertRaises(gen_adapters.TableError) as caught:
            for function in gen_adapters.read_table(text):
                gen_adapters.emit_reader(function, [])
        return str(caught.exception)

    def test_a_good_row_is_read(self):
        functions = gen_adapters.read_table(table())
        self.assertEqual(functions[0].names, ["cublasSf_v2", "cublasDf_v2"])
        self.assertEqual(functions[0].kinds, "oimi")
        out = []
        gen_adapters.emit_reader(functions[0], out)
        self.assertIn("r.Vector(2, OperandUse::kRead, r.element_bytes(), n, incx);", out[0])
        # An increment may be negative, a size may not.
        self.assertIn("n = r.Size(1)", out[0])
        self.assertIn("incx = r.Signed(3)", out[0])

    def test_what_is_wrong_is_named(self):
        self.assertIn("the next one is 1", self.refused(table(number="2")))
        self.assertIn("what does x span", self.refused(table(memory__x=None)))
        self.assertIn("no shape", self.refused(table(memory__x='"circle(n)"')))
        self.assertIn("2 arguments", self.refused(table(memory__x='"vector(n)"')))
        self.assertIn("no parameter", self.refused(table(memory__y='"vector(n, incx)"')))
        self.assertIn("unknown kind", self.refused(table(parameters='["float x"]')))
        self.assertIn("'m'", self.refused(table(work='"m"')))
        self.assertIn("not understood", self.refused(table(work='"n / 2"')))
        self.assertIn("divided by what", self.refused(table(divide='{by = "m"}')))
        self.assertIn("unknown keys", self.refused(table(color='"red"')))

    @unittest.skipUnless(HEADER.exists(), "no cublas_api.h")
    def test_prototypes_are_nvidias(self):
        text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
        prototypes = dict(re.findall(r"cublasStatus_t\s+CUBLASWINAPI\s+(\w+)\s*\(([^)]*)\)", text))
        for function in gen_adapters.read_table(TABLE.read_text(encoding="utf-8")):
            for name in function.names:
                with self.subTest(name=name):
                    self.compare(function, prototypes[name])

    def test_arrays_of_addresses_have_each(self):
        good = table(parameters='["int n", "ins x", "int incx", "int count"]',
                     memory__x='"each(vector(n, incx), count)"')
        functions = gen_adapters.read_table(good)
        self.assertEqual(functions[0].kinds, "ipii")
        out = []
        gen_adapters.emit_reader(functions[0], out)
        self.assertIn("r.Each(1, OperandUse::kRead, r.element_bytes(), r.VectorShape(n, incx), count, false);",
                      out[0])
        bad = {'["int n", "ins x", "int incx"]': '"vector(n, incx)"',
               '["int n", "in x", "int incx"]': '"each(vector(n, incx), n)"'}
        for parameters, shape in bad.items():
            self.assertIn("an array of addresses has each",
                          self.refused(table(parameters=parameters, memory__x=shape)))
        self.assertIn("is not each(SHAPE, COUNT)",
                      self.refused(table(parameters='["int n", "ins x", "int incx"]',
                                         memory__x='"each(vector(n, incx))"')))

    def compare(self, function, text):
        theirs = [re.sub(r"\s+", " ", word).strip() for word in text.split(",")][1:]
        self.assertEqual(len(theirs), len(function.parameters))
        for parameter, wanted in zip(function.parameters, theirs):
            kind, name = wanted.rsplit(" ", 1)
            pointer = kind.endswith("*") or name.startswith("*")
            self.assertEqual(name.lstrip("*").removesuffix("[]"), parameter.name)
            if name.endswith("[]"):
                # The addresses in the array are constant in all of them.
                self.assertEqual(parameter.kind, "ins" if kind.startswith("const") else "inouts")
            elif not pointer:
                self.assertEqual(KINDS[kind], parameter.kind, wanted)
            elif kind.startswith("const"):
                self.assertIn(parameter.kind, ("scalar", "real", "in"), wanted)
            else:
                self.assertIn(parameter.kind, ("out", "inout", "result"), wanted)


if __name__ == "__main__":
    unittest.main()
