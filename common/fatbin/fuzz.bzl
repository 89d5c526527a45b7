"""fuzz_target(name, corpus, ...): a libFuzzer binary and a test that needs no fuzzer.

<name> is built with clang and run by hand, with a copy of the corpus to add to:
    CC=clang bazel run --copt=-fsanitize=address //guard/ptx:ptx_fuzz -- /tmp/corpus
<name>_test replays the corpus and seeded mutations of it under any compiler.
"""

def fuzz_target(name, srcs, corpus, deps):
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = ["-fsanitize=fuzzer-no-link"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = srcs,
        args = ["$(locations %s)" % corpus],
        data = [corpus],
        deps = deps + ["//common/fatbin:fuzz_replay"],
    )
