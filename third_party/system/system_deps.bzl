"""@sys: the Debian -dev packages as cc_library targets.

Headers live in /usr/include, one of the compiler's built-in include directories, so
Bazel accepts them undeclared, in the sandbox too. Link flags come from pkg-config,
wrapped in --as-needed so that a binary's NEEDED list holds only what it uses.
"""

# target -> (pkg-config modules, apt package, deps).
_LIBS = {
    "absl": (["absl_" + m for m in [
        "base", "cord", "flags", "flags_parse", "flags_usage", "flat_hash_map", "flat_hash_set",
        "inlined_vector", "optional", "random_random", "span", "stacktrace", "status", "statusor",
        "str_format", "strings", "symbolize", "synchronization", "time",
    ]], "libabsl-dev", []),
    "protobuf": (["protobuf"], "libprotobuf-dev", []),
    "openssl": (["openssl"], "libssl-dev", []),
    "grpc++": (["grpc++"], "libgrpc++-dev", [":protobuf"]),
    "gtest": (["gmock", "gtest"], "libgmock-dev", []),
    "gtest_main": (["gmock_main"], "libgmock-dev", [":gtest"]),
    "benchmark": (["benchmark"], "libbenchmark-dev", []),
    "prometheus": (["prometheus-cpp-pull"], "prometheus-cpp-dev", []),
    "zstd": (["libzstd"], "libzstd-dev", []),
    "lz4": (["liblz4"], "liblz4-dev", []),
    "nlohmann_json": (["nlohmann_json"], "nlohmann-json3-dev", []),
    "sqlite3": (["sqlite3"], "libsqlite3-dev", []),
    "crypto": (["libcrypto"], "libssl-dev", []),
    "ucx": (["ucx"], "libucx-dev", []),
}

# Not described by any .pc file.
_EXTRA = """
cc_library(name = "grpc++_reflection", linkopts = ["-Wl,--push-state,--no-as-needed", "-lgrpc++_reflection", "-Wl,--pop-state"], deps = [":grpc++"])
cc_library(name = "civetweb", linkopts = ["-lcivetweb"])
cc_library(name = "benchmark_main", linkopts = ["-lbenchmark_main"], deps = [":benchmark"])
"""

_TOOLS = {"protoc": "protobuf-compiler", "grpc_cpp_plugin": "protobuf-compiler-grpc"}

def _system_deps_impl(ctx):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        fail("pkg-config not found: apt-get install pkg-config")
    missing = []
    versions = {}
    build = ['package(default_visibility = ["//visibility:public"])\n']
    for name, (modules, apt, deps) in _LIBS.items():
        version = ctx.execute([pkg_config, "--modversion", modules[0]])
        libs = ctx.execute([pkg_config, "--libs"] + modules)
        if libs.return_code != 0 or version.return_code != 0:
            missing.append(apt)
            continue
        versions[name] = version.stdout.strip()
        flags = ["-Wl,--push-state,--as-needed"]
        seen = {}
        for f in libs.stdout.strip().split(" "):
            if f.startswith("-l") and f not in seen:
                seen[f] = True
                flags.append(f)
        flags += ["-lpthread", "-Wl,--pop-state"]
        build.append("cc_library(name = \"{}\", linkopts = {}, deps = {})\n".format(name, flags, deps))
    for tool, apt in _TOOLS.items():
        path = ctx.which(tool)
        if not path:
            missing.append(apt)
            continue
        ctx.symlink(path, tool)
        build.append('exports_files(["{}"])\n'.format(tool))
    if missing:
        fail("Missing Debian packages. Run: apt-get install " + " ".join(missing))
    ctx.file("BUILD", "\n".join(build) + _EXTRA)
    ctx.file("versions.bzl", "VERSIONS = {}\n".format(versions))

system_deps = repository_rule(
    implementation = _system_deps_impl,
    environ = ["PATH", "PKG_CONFIG_PATH"],
    configure = True,  # Re-run with: bazel sync --configure
)
