help_text() {
  cat <<'TEXT'
Usage: ./dev bench [--device=auto|cuda|cpu] [--server_flag=FLAG]... [--bundle=DIR]
                   [--runs=N] [--json] [-- ARGUMENTS OF warpline_bench]

Builds and starts a server on a free loopback port and measures CUDA calls through it; on a machine
with a GPU and its driver also natively, side by side.
  --bundle   run from a folder made by `./dev bundle` and build nothing
  --runs     how often each side is measured; a figure is the median
  --json     figures as JSON
TEXT
}

main() {
  local arg
  for arg in "$@"; do
    case "$arg" in
      --bundle | --bundle=*)
        [ -x "$PYTHON" ] || need_packages build
        exec "$PYTHON" -u "$ROOT/deploy/bench.py" "$@"
        ;;
    esac
  done
  need_build
  say "building the server, the client library and the benchmark"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //bench/cuda/...
  exec "$PYTHON" -u "$ROOT/deploy/bench.py" --bazel_bin="$(bazel_bin)" "$@"
}
