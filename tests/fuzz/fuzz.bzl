"""fuzz_target: one LLVMFuzzerTestOneInput, fuzzed by libFuzzer and replayed by every test run."""

def fuzz_target(name, srcs, corpus, deps):
    """Declares

    NAME         the fuzzer, built with clang and run by hand on a copy of the corpus, to which it
                 adds: bazel build --config=fuzz //PACKAGE:NAME
    NAME_test    replays the corpus and seeded mutations of it, under any compiler

    Args:
      name: of the fuzzer.
      srcs: the file with LLVMFuzzerTestOneInput.
      corpus: a filegroup of files to start from; small ones.
      deps: what srcs include.
    """
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
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
        deps = deps + ["//tests/fuzz:replay_main"],
    )
