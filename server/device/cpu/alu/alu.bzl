"""alu_library: the arithmetic of one instruction set. The sources are the same for each."""

_SRCS = [
    "alu_address.cc",
    "alu_approx.cc",
    "alu_bits.cc",
    "alu_compare.cc",
    "alu_convert.cc",
    "alu_float.cc",
    "alu_half.cc",
    "alu_integer.cc",
    "alu_simd.cc",
    "alu_wide.cc",
]

# Optimized in every build: an interpreter compiled without is too slow to test. Contraction would
# turn mul and add into fma, which rounds once. clang warns of loops that it does not vectorize.
LANE_COPTS = [
    "-O3",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-Wno-ignored-attributes",
    "-Wno-pass-failed",
]

def alu_library(name, namespace, copts = []):
    define = ["-DWARPLINE_ALU=" + namespace]
    native.cc_library(
        name = name,
        srcs = _SRCS + ["alu_float_math.h", "alu_lanes.h"],
        copts = LANE_COPTS + define + copts,
        deps = [":alu_header", ":half_float", "//server/device/cpu/machine:op"],
    )
    native.cc_library(
        name = name + "_directed",
        srcs = ["alu_directed.cc", "alu_float_math.h", "alu_lanes.h"],
        copts = LANE_COPTS + define + copts + ["-frounding-math"],
        deps = [":alu_header", "//server/device/cpu/machine:op"],
    )
