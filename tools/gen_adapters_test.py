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
LT_HEADER = HEADER.parent / "cublasLt.h"
LT_NUMBERS = pathlib.Path("proto/adapters/lt_types.h")
LT_NAMES = {
    "kLtDefault": "CUBLASLT_EPILOGUE_DEFAULT", "kLtRelu": "CUBLASLT_EPILOGUE_RELU",
    "kLtBias": "CUBLASLT_EPILOGUE_BIAS", "kLtGelu": "CUBLASLT_EPILOGUE_GELU",
    "kLtSumsOfA": "CUBLASLT_EPILOGUE_BGRADA", "kLtSumsOfB": "CUBLASLT_EPILOGUE_BGRADB",
    "kLtAllReductions": "CUBLASLT_REDUCTION_SCHEME_MASK",
    "kLtMostCluster": "CUBLASLT_CLUSTER_SHAPE_1x15x1",
    **{"kLtConfig" + ours: "CUBLASLT_ALGO_CONFIG_" + theirs for ours, theirs in {
        "Id": "ID", "Tile": "TILE_ID", "Splits": "SPLITK_NUM", "Scheme": "REDUCTION_SCHEME",
        "Swizzle": "CTA_SWIZZLING", "Custom": "CUSTOM_OPTION", "Stages": "STAGES_ID",
        "Inner": "INNER_SHAPE_ID", "Cluster": "CLUSTER_SHAPE_ID"}.items()},
    **{"kLt" + ours: "CUBLASLT_ALGO_CAP_" + theirs for ours, theirs in {
        "CanSplit": "SPLITK_SUPPORT", "CanReduce": "REDUCTION_SCHEME_MASK",
        "CanSwizzle": "CTA_SWIZZLING_SUPPORT", "CanStride": "STRIDED_BATCH_SUPPORT",
        "CanLeave": "OUT_OF_PLACE_RESULT_SUPPORT", "PointerModes": "POINTER_MODE_MASK",
        "Epilogues": "EPILOGUE_MASK", "CanTakeArrays": "POINTER_ARRAY_BATCH_SUPPORT", "Tiles": "TILE_IDS", "Stages": "STAGES_IDS",
        "MostCustom": "CUSTOM_OPTION_MAX", "NumericalFlags": "NUMERICAL_IMPL_FLAGS",
        "LeastAlignmentOfA": "MIN_ALIGNMENT_A_BYTES", "LeastAlignmentOfB": "MIN_ALIGNMENT_B_BYTES",
        "LeastAlignmentOfC": "MIN_ALIGNMENT_C_BYTES", "LeastAlignmentOfD": "MIN_ALIGNMENT_D_BYTES"}.items()},
    **{"kLtLayout" + ours: "CUBLASLT_MATRIX_LAYOUT_" + theirs for ours, theirs in {
        "Type": "TYPE", "Order": "ORDER", "Rows": "ROWS", "Columns": "COLS", "Leading": "LD",
        "BatchCount": "BATCH_COUNT", "Stride": "STRIDED_BATCH_OFFSET", "PlaneOffset": "PLANE_OFFSET",
        "BatchMode": "BATCH_MODE"}.items()},
    **{"kLt" + ours: "CUBLASLT_MATMUL_DESC_" + theirs for ours, theirs in {
        "ComputeType": "COMPUTE_TYPE", "ScaleType": "SCALE_TYPE", "PointerMode": "POINTER_MODE",
        "TransA": "TRANSA", "TransB": "TRANSB", "TransC": "TRANSC", "FillMode": "FILL_MODE",
        "EpilogueKind": "EPILOGUE", "BiasPointer": "BIAS_POINTER", "BiasStride": "BIAS_BATCH_STRIDE",
        "AuxPointer": "EPILOGUE_AUX_POINTER", "AuxLeading": "EPILOGUE_AUX_LD",
        "AuxStride": "EPILOGUE_AUX_BATCH_STRIDE", "AlphaStride": "ALPHA_VECTOR_BATCH_STRIDE",
        "Multiprocessors": "SM_COUNT_TARGET", "ScaleOfA": "A_SCALE_POINTER",
        "ScaleOfB": "B_SCALE_POINTER", "ScaleOfC": "C_SCALE_POINTER", "ScaleOfD": "D_SCALE_POINTER",
        "LargestOfD": "AMAX_D_POINTER", "AuxType": "EPILOGUE_AUX_DATA_TYPE",
        "ScaleOfAux": "EPILOGUE_AUX_SCALE_POINTER", "LargestOfAux": "EPILOGUE_AUX_AMAX_POINTER",
        "FastSums": "FAST_ACCUM", "BiasType": "BIAS_DATA_TYPE", "ScaleModeOfA": "A_SCALE_MODE",
        "ScaleModeOfB": "B_SCALE_MODE", "ScaleModeOfC": "C_SCALE_MODE", "ScaleModeOfD": "D_SCALE_MODE",
        "ScaleModeOfAux": "EPILOGUE_AUX_SCALE_MODE", "OutScaleOfD": "D_OUT_SCALE_POINTER",
        "OutScaleModeOfD": "D_OUT_SCALE_MODE", "Emulation": "EMULATION_DESCRIPTOR"}.items()},
    **{"kLt" + ours: "CUBLASLT_MATMUL_PREF_" + theirs for ours, theirs in {
        "SearchMode": "SEARCH_MODE", "MostWorkspace": "MAX_WORKSPACE_BYTES",
        "Reductions": "REDUCTION_SCHEME_MASK", "AlignmentOfA": "MIN_ALIGNMENT_A_BYTES",
        "AlignmentOfB": "MIN_ALIGNMENT_B_BYTES", "AlignmentOfC": "MIN_ALIGNMENT_C_BYTES",
        "AlignmentOfD": "MIN_ALIGNMENT_D_BYTES", "MostWaves": "MAX_WAVES_COUNT",
        "Implementations": "IMPL_MASK"}.items()},
}
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
            # The parameters of the others are the contents of descriptors.
            for name in function.names if not function.by_hand else ():
                with self.subTest(name=name):
                    self.compare(function, prototypes[name])

    @unittest.skipUnless(LT_HEADER.exists(), "no cublasLt.h")
    def test_numbers_of_cublaslt_are_nvidias(self):
        text = re.sub(r"/\*.*?\*/", " ", LT_HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
        theirs = {name: int(value, 0) for name, value in
                  re.findall(r"\b(CUBLASLT_\w+) = (0x[0-9a-f]+|\d+)\s*,", text)}
        ours = {name: int(value) for name, value in
                re.findall(r"\b(kLt\w+) = (\d+)", LT_NUMBERS.read_text(encoding="utf-8"))}
        for name, their_name in LT_NAMES.items():
            with self.subTest(name=name):
                self.assertEqual(ours[name], theirs[their_name])
        listed = set(LT_NAMES) | {"kLtReluGradient", "kLtBiasGradient", "kLtGeluGradient", "kLtAuxiliary",
                                  "kLtMaskBits", "kLtConfigAttributes", "kLtFirstShort",
                                  "kLtAuxElements", "kLtMostAlgorithms", "kLtMostAlignment",
                                  "kLtScaleNone", "kLtScaleOne", "kLtScaleOuter", "kLtScaleBlocks",
                                  "kLtScaleSquares", "kLtCapabilities", "kLtMostKinds",
                                  "kLtTileWords", "kLtStageWords", "kLtMostSplits",
                                  "kLtAskAlgorithms", "kLtAskKinds"}
        self.assertEqual(listed, set(ours))

    def test_functions_by_hand_have_no_entry_and_their_places_are_listed(self):
        functions = gen_adapters.read_table(table(name='"cublasLtF"', by_hand="true"))
        self.assertNotIn("cublasLtF", gen_adapters.entries_text(functions))
        self.assertNotIn("cublasLtF", gen_adapters.thunks_text(functions))
        slots = gen_adapters.slots_text(functions)
        for line in ("kLtFNumber = 1,", "kLtFTrans = 0,", "kLtFX = 2,", "kLtFValues = 4"):
            self.assertIn(line, slots)

    def test_bits_are_found(self):
        function = gen_adapters.read_table(table())[0]
        self.assertEqual(function.expression("n if trans & 4 else 0"),
                         "((trans & Wide(4)) != Wide(0) ? n : Wide(0))")

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
