help_text() {
  cat <<'TEXT'
Usage: ./dev test [--asan|--tsan|--clang|--dbg] [BAZEL OPTIONS] [TARGETS]

Builds the targets (default: everything, //...) and runs their tests; configurations as for
`./dev build`. The last line is `N passed, N failed, N skipped`, in test targets: one that could not
be built counts as failed, one of which every case was skipped as skipped. Exits with 1 if any failed.
TEXT
}

main() {
  local events status=0
  parse_build_options "$@"
  split_targets "${REST[@]}"
  if [ "$CONFIG" = clang ]; then need_build test clang; else need_build test; fi
  say "testing ${TARGETS[*]} (configuration $CONFIG)"
  events=$(mktemp)
  bazel_call test --config="$CONFIG" --keep_going --build_event_json_file="$events" "${FLAGS[@]}" -- \
    "${TARGETS[@]}" || status=$?
  "$PYTHON" "$DEV/test_summary.py" "$events" "$status" && status=0 || status=$?
  rm -f "$events"
  return "$status"
}
