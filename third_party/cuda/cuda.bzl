"""cuda_object, cuda_ptx, cuda_fatbin, cuda_binary, cuda_program, cuda_embed: nvcc under Bazel."""

load("@cuda//:defs.bzl", "CUDA_HOME", "CUDA_LIB", "CUDA_VERSION")

DEFAULT_ARCHS = ["75", "90"]

# tags of every target that needs the toolkit: without one, //... skips them.
CUDA_TAGS = [] if CUDA_HOME else ["manual"]
_HOME = CUDA_HOME or "/usr/local/cuda"

# nvcc names its temporary files by its process's number, and takes a name if it finds no file of it.
# In sandboxes, whose processes all have the same few numbers, two at once take the same one; hence
# the action's own folder in place of the /tmp that they share. Bazel sets an action's TMPDIR itself.
_ENV = {"PATH": "/usr/bin:/bin", "CUDA_VERSION": CUDA_VERSION or ""}
_NVCC = ["TMPDIR=.", _HOME + "/bin/nvcc"]

# kind -> (nvcc flag, extension)
_KINDS = {
    "object": ("-c", ".o"),
    "ptx": ("-ptx", ".ptx"),
    "fatbin": ("-fatbin", ".fatbin"),
    "cubin": ("-cubin", ".cubin"),
}

def _nvcc_impl(ctx):
    flag, ext = _KINDS[ctx.attr.kind]
    hdrs = depset(ctx.files.hdrs, transitive = [d[CcInfo].compilation_context.headers for d in ctx.attr.deps])
    outs = []
    for src in ctx.files.srcs:
        out = ctx.actions.declare_file("%s/%s%s" % (ctx.label.name, src.basename[:-len(src.extension) - 1], ext))
        args = ctx.actions.args()
        args.add_all([flag, "-x", "cu", "-ccbin", "/usr/bin/g++", "-std=c++17", "-O2"])
        args.add("-frandom-seed=" + src.short_path)  # Same bytes on every run.
        if ctx.attr.kind == "object":
            args.add_all(["-Xcompiler", "-fPIC"])
        if ctx.attr.kind in ["ptx", "cubin"]:
            args.add(("-arch=compute_%s" if ctx.attr.kind == "ptx" else "-arch=sm_%s") % ctx.attr.archs[0])
        else:
            for a in ctx.attr.archs:
                args.add("-gencode=arch=compute_{0},code=sm_{0}".format(a))
            args.add("-gencode=arch=compute_{0},code=compute_{0}".format(ctx.attr.archs[-1]))
        args.add_all(ctx.attr.nvccopts)
        args.add("-I.")
        args.add("-I" + ctx.bin_dir.path)
        for d in ctx.attr.deps:
            args.add_all(d[CcInfo].compilation_context.system_includes, before_each = "-isystem")
        args.add(src)
        args.add("-o", out)
        ctx.actions.run(
            executable = "/usr/bin/env",
            arguments = _NVCC + [args],
            inputs = depset([src], transitive = [hdrs]),
            outputs = [out],
            env = _ENV,
            mnemonic = "Nvcc",
            progress_message = "nvcc %s %s" % (ctx.attr.kind, src.short_path),
        )
        outs.append(out)
    return [DefaultInfo(files = depset(outs), runfiles = ctx.runfiles(outs))]

_nvcc = rule(
    implementation = _nvcc_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh", ".hpp"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "kind": attr.string(values = _KINDS.keys(), mandatory = True),
        "archs": attr.string_list(mandatory = True),
        "nvccopts": attr.string_list(),
    },
)

def _program_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name)
    args = ctx.actions.args()
    args.add_all(["-O2", "-ccbin", "/usr/bin/g++", "-Xcompiler", "-Wall,-Wextra,-Werror"])

    # Same bytes on every run.
    args.add("-frandom-seed=" + ctx.file.src.short_path)

    # nvcc looks in lib64 by itself; the toolkit from Python wheels has lib.
    if CUDA_LIB and not CUDA_LIB.endswith("/lib64"):
        args.add("-L" + CUDA_LIB)
    args.add_all(ctx.attr.nvccopts)
    args.add("-o", out)
    args.add(ctx.file.src)
    ctx.actions.run(
        executable = "/usr/bin/env",
        arguments = _NVCC + [args],
        inputs = [ctx.file.src] + ctx.files.hdrs,
        outputs = [out],
        env = _ENV,
        mnemonic = "NvccProgram",
        progress_message = "nvcc %s" % ctx.file.src.short_path,
    )
    return [DefaultInfo(files = depset([out]), executable = out)]

_program = rule(
    implementation = _program_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "nvccopts": attr.string_list(),
    },
    executable = True,
)

def _gate(kwargs):
    kwargs["tags"] = kwargs.get("tags", []) + CUDA_TAGS
    return kwargs

def cuda_object(name, srcs, archs = DEFAULT_ARCHS, **kwargs):
    _nvcc(name = name, srcs = srcs, kind = "object", archs = archs, **_gate(kwargs))

def cuda_ptx(name, srcs, arch = "75", **kwargs):
    _nvcc(name = name, srcs = srcs, kind = "ptx", archs = [arch], **_gate(kwargs))

def cuda_cubin(name, srcs, arch, **kwargs):
    _nvcc(name = name, srcs = srcs, kind = "cubin", archs = [arch], **_gate(kwargs))

def cuda_fatbin(name, srcs, archs = DEFAULT_ARCHS, **kwargs):
    _nvcc(name = name, srcs = srcs, kind = "fatbin", archs = archs, **_gate(kwargs))

def cuda_binary(name, srcs, cudart = "shared", deps = [], archs = DEFAULT_ARCHS, nvccopts = [], **kwargs):
    """Links nvcc objects of srcs with g++. cudart: "shared" or "static"."""
    cuda_object(name = name + "_cu", srcs = srcs, archs = archs, nvccopts = nvccopts, deps = deps)
    native.cc_binary(
        name = name,
        srcs = [name + "_cu"],
        deps = deps + ["@cuda//:cudart_static" if cudart == "static" else "@cuda//:cudart"],
        **_gate(kwargs)
    )

def cuda_program(name, src, hdrs = [], nvccopts = [], **kwargs):
    """What a user gets from `nvcc -O2 -o name src`: libcudart static, nvcc's default architecture.

    Neither our compiler options nor our libraries go in, and libcuda is not needed to link.

    Args:
      name: the target and the program.
      src: the one .cu file.
      hdrs: headers that src includes by a path from its own folder.
      nvccopts: options a user would have to give as well; none by default.
      **kwargs: passed on.
    """
    _program(name = name, src = src, hdrs = hdrs, nvccopts = nvccopts, **_gate(kwargs))

def cuda_embed(name, src, symbol, **kwargs):
    """cc_library with `extern "C" const unsigned char symbol[]`, NUL-terminated."""
    native.genrule(
        name = name + "_c",
        srcs = [src],
        outs = [name + ".c"],
        cmd = "%s/bin/bin2c -c -p 0 -n %s $(SRCS) > $@" % (_HOME, symbol),
        **_gate(dict(kwargs))
    )
    native.cc_library(name = name, srcs = [name + "_c"], **_gate(dict(kwargs)))
