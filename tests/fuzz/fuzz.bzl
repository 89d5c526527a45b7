"""fuzz_target: one LLVMFuzzerTestOneInput, fuzzed by libFuzzer and replayed by every test run."""

def fuzz_target(name, srcs, deps, corpus, **kwargs):
    """Declares

    NAME         the fuzzer (clang: bazel build --config=fuzz //pkg:NAME, then run it on a copy of
                 the corpus)
    NAME_replay  a test that feeds the corpus and seeded mutations of it to the same function

    Args:
      name: of the fuzzer.
      srcs: the file with LLVMFuzzerTestOneInput.
      deps: what it includes.
      corpus: files to start from; small ones.
      **kwargs: for both targets.
    """
    native.cc_library(
        name = name + "_lib",
        srcs = srcs,
        testonly = True,
        alwayslink = True,
        deps = deps,
        **kwargs
    )
    native.cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_lib"],
        **kwargs
    )
    native.cc_test(
        name = name + "_replay",
        size = "small",
        args = ["$(locations %s)" % c for c in corpus],
        data = corpus,
        deps = [
            ":" + name + "_lib",
            "//tests/fuzz:replay_main",
        ],
        **kwargs
    )
