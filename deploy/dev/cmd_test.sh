help_text() {
  cat <<'TEXT'
Usage: ./dev test [--asan|--tsan|--clang|--dbg] [BAZEL OPTIONS] [TARGETS]
       ./dev test --gpu [--bundle=DIR] [--only=NAME,...] [--json=FILE] [--logs=DIR] [--jobs=N]

Builds the targets (default: everything, //...) and runs their tests; configurations as for
`./dev build`. The last line is `N passed, N failed, N skipped`, in test targets: one that could not
be built counts as failed, one of which every case was skipped as skipped. Exits with 1 if any failed.

--gpu instead runs the framework programs of tests/gpu natively and remotely on this machine's GPU and
compares them: one line a case, then a total. Without --bundle it builds a bundle first. It takes the
`python3` of PATH, whose modules decide what is skipped; tests/gpu/run.py --help lists its options.
TEXT
}

run_on_gpu() {
  local arg python
  python=$(command -v python3) || die "no python3 in PATH"
  for arg in "$@"; do
    case "$arg" in
      --bundle | --bundle=*) exec "$python" -u "$ROOT/tests/gpu/run.py" "$@" ;;
    esac
  done
  (. "$DEV/cmd_bundle.sh" && main)
  exec "$python" -u "$ROOT/tests/gpu/run.py" --bundle="$ROOT/dist/warpline" "$@"
}

main() {
  local events status=0
  if [ "${1:-}" = --gpu ]; then
    shift
    run_on_gpu "$@"
  fi
  parse_build_options "$@"
  split_targets "${REST[@]}"
  if [ "$CONFIG" = clang ]; then need_build test clang; else need_build test; fi
  need_kubernetes_tools
  say "testing ${TARGETS[*]} (configuration $CONFIG)"
  events=$(mktemp)
  bazel_call test --config="$CONFIG" --keep_going --build_event_json_file="$events" "${FLAGS[@]}" -- \
    "${TARGETS[@]}" || status=$?
  "$PYTHON" "$DEV/test_summary.py" "$events" "$status" && status=0 || status=$?
  rm -f "$events"
  return "$status"
}
