"""@kubernetes_tools: what the tests of deploy/kubernetes check manifests with.

./dev installs it (deploy/dev/kubernetes.sh); where it is not, :tools is empty, and those tests fail
with words that say so. That ./dev sets WARPLINE_KUBERNETES_TOOLS once it is there makes Bazel look again.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "tools",
    srcs = glob(["tools/bin/kubectl", "tools/schemas/*.json", "tools/cel_expr_python/**"], allow_empty = True),
)
"""

def _kubernetes_tools_impl(ctx):
    env = ctx.os.environ
    cache = env.get("XDG_CACHE_HOME") or (env["HOME"] + "/.cache" if env.get("HOME") else None)
    path = env.get("WARPLINE_KUBERNETES_TOOLS") or (cache + "/warpline/kubernetes-1.37.1" if cache else None)
    tools = ctx.path(path) if path else None
    if tools and tools.exists:
        ctx.symlink(tools, "tools")
    ctx.file("BUILD", _BUILD)

kubernetes_tools = repository_rule(
    implementation = _kubernetes_tools_impl,
    environ = ["HOME", "WARPLINE_KUBERNETES_TOOLS", "XDG_CACHE_HOME"],
    configure = True,  # Re-run with: bazel sync --configure
)
