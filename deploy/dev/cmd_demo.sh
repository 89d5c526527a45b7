help_text() {
  cat <<'TEXT'
Usage: ./dev demo [--device=NAME] [--only=NAME]... [--stat] [--timeout=SECONDS]
                  [--session_memory=SIZE] [--server_flag=FLAG]... [--bundle=DIR]

Builds and starts a server on a free loopback port, runs the example programs (examples/programs.txt)
with only our libcuda.so.1 in their library path, and checks their results. A GPU is used if there
is one. The last line is `demo: ok (N programs, device: NAME)`, or `demo: FAILED (...)` with exit 1.
  --device   where kernels run: auto (default), cuda, cpu, or what else warpline-server knows
  --only     run this program only
  --stat     print the counters of each program's session
  --bundle   run from a folder made by `./dev bundle` and build nothing
TEXT
}

main() {
  local arg
  for arg in "$@"; do
    case "$arg" in
      --bundle | --bundle=*)
        [ -x "$PYTHON" ] || need_packages build
        exec "$PYTHON" -u "$ROOT/deploy/local/demo.py" "$@"
        ;;
    esac
  done
  need_build
  say "building the server, the client library and the example programs"
  if ! bazel_call build --config=opt -- "${INSTALLATION[@]}" //examples/...; then
    echo "demo: FAILED (the build failed)"
    return 1
  fi
  exec "$PYTHON" -u "$ROOT/deploy/local/demo.py" --bazel_bin="$(bazel_bin)" "$@"
}
