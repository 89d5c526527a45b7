help_text() {
  cat <<'TEXT'
Usage: ./dev bench [--device=NAME] [--server_flag=FLAG]... [--bundle=DIR]
                   [--runs=N] [--no_control] [--json=FILE] [-- ARGUMENTS OF warpline_bench]
       ./dev bench --startup [--device=...] [--runs=20] [--sessions=64] [--bundle=DIR]

Builds and starts a server on a free loopback port and measures CUDA calls through it; on a machine
with a GPU and its driver also natively, side by side. bench/paired.py says what the columns are.
  --bundle   run from a folder made by `./dev bundle` and build nothing
  --runs     how often each side is measured (7); a figure is the median
  --no_control  not natively once more, which says what native programs differ by from themselves
  --json     a file for the figures, in the form of docs/performance.json
  --startup  instead: how long a program takes to start, and what idle sessions cost
TEXT
}

main() {
  local arg script=bench.py
  if [ "${1:-}" = --startup ]; then
    script=startup.py
    shift
  fi
  for arg in "$@"; do
    case "$arg" in
      --bundle | --bundle=*)
        [ -x "$PYTHON" ] || need_packages build
        exec "$PYTHON" -u "$ROOT/deploy/local/$script" "$@"
        ;;
    esac
  done
  need_build
  say "building the server, the client library and the benchmark"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //bench/cuda/...
  exec "$PYTHON" -u "$ROOT/deploy/local/$script" --bazel_bin="$(bazel_bin)" "$@"
}
