"""@cuda: the CUDA 13 toolkit of this machine.

Looked for in the same places and order as deploy/dev/cuda.sh does: $CUDA_HOME, /usr/local/cuda, the
one whose nvcc is on PATH, and NVIDIA's wheels as ./dev installs them. Wheels have their libraries in
lib/ instead of lib64/ and no stub of libcuda.so, so nothing here links one: programs reach the
driver API through the runtime or by dlopen.

@cuda//:defs.bzl has CUDA_HOME, CUDA_LIB (its library folder) and CUDA_VERSION, all None where there
is no toolkit. Targets that need one then carry the tag "manual" (cuda.bzl), so that //... builds.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# Neither include/cccl nor the mathematical libraries: each header is a symlink in every sandbox.
cc_library(
    name = "headers",
    hdrs = glob(
        [
            "include/builtin_types.h",
            "include/channel_descriptor.h",
            "include/common_functions.h",
            "include/cooperative_groups.h",
            "include/cooperative_groups/**",
            "include/cuComplex.h",
            "include/cuda.h",
            "include/cudaProfiler*.h",
            "include/cudaTypedefs.h",
            "include/cuda_*.h",
            "include/cuda_*.hpp",
            "include/device_*.h",
            "include/device_*.hpp",
            "include/driver_*.h",
            "include/fatbinary_section.h",
            "include/host_config.h",
            "include/host_defines.h",
            "include/library_types.h",
            "include/math_*.h",
            "include/mma.h",
            "include/*_functions.h",
            "include/*_functions.hpp",
            "include/*_intrinsics.h",
            "include/*_intrinsics.hpp",
            "include/surface_*.h",
            "include/texture_*.h",
            "include/vector_*.h",
            "include/vector_*.hpp",
            "include/crt/**",
        ],
    ),
    includes = ["include"],
)

cc_library(
    name = "cudart",
    linkopts = ["-L{lib}", "-l:libcudart.so.13"],
    deps = [":headers"],
)

cc_library(
    name = "cudart_static",
    linkopts = ["-L{lib}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)

# One typedef for each entry point of the driver and version of it.
filegroup(
    name = "typedefs",
    srcs = glob(["include/cuda*Typedefs.h"]),
)
"""

_EMPTY = """
package(default_visibility = ["//visibility:public"])

[cc_library(
    name = name,
    tags = ["manual"],
) for name in ["headers", "cudart", "cudart_static"]]

filegroup(
    name = "typedefs",
    tags = ["manual"],
)
"""

_DEFS = """CUDA_HOME = {home}
CUDA_LIB = {lib}
CUDA_VERSION = {version}
"""

def _candidates(ctx):
    env = ctx.os.environ
    if env.get("CUDA_HOME"):
        return [ctx.path(env["CUDA_HOME"])]
    found = [ctx.path("/usr/local/cuda")]
    nvcc = ctx.which("nvcc")
    if nvcc:
        found.append(nvcc.realpath.dirname.dirname)
    cache = env.get("XDG_CACHE_HOME") or (env["HOME"] + "/.cache" if env.get("HOME") else None)
    if cache:
        found.append(ctx.path(cache + "/warpline/cuda-13.0/nvidia/cu13"))
    return found

def _library_folder(root):
    for name in ["lib64", "lib"]:
        if root.get_child(name).get_child("libcudart_static.a").exists:
            return root.get_child(name)
    return None

def _nvcc_version(ctx, root):
    """The version of the nvcc under root, such as "13.0.88"; None if it is not a CUDA 13 one."""
    nvcc = root.get_child("bin").get_child("nvcc")
    if not nvcc.exists:
        return None
    result = ctx.execute([nvcc, "--version"])
    if result.return_code != 0 or ", V" not in result.stdout:
        return None
    version = result.stdout.split(", V")[1].split("\n")[0]
    return version if version.startswith("13.") else None

def _cuda_configure_impl(ctx):
    for root in _candidates(ctx):
        lib = _library_folder(root)
        version = _nvcc_version(ctx, root) if lib else None
        if version:
            home = str(root.realpath)
            ctx.symlink(home + "/include", "include")
            ctx.file("BUILD", _BUILD.format(lib = lib.realpath))
            ctx.file("defs.bzl", _DEFS.format(
                home = repr(home),
                lib = repr(str(lib.realpath)),
                version = repr(version),
            ))
            return
    ctx.file("BUILD", _EMPTY)
    ctx.file("defs.bzl", _DEFS.format(home = None, lib = None, version = None))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "HOME", "PATH", "XDG_CACHE_HOME"],
    configure = True,  # Re-run with: bazel sync --configure
)
