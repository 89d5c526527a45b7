help_text() {
  cat <<'TEXT'
Usage: ./dev coverage [BAZEL OPTIONS] [TARGETS]

Runs the tests (default: all) with coverage and prints the share of lines that ran, by folder. The
lcov report lies where the last line says.
TEXT
}

main() {
  local report status=0
  split_targets "$@"
  need_build test
  need_kubernetes_tools
  say "running ${TARGETS[*]} with coverage"
  bazel_call coverage --keep_going "${FLAGS[@]}" -- "${TARGETS[@]}" || status=$?
  report=$(bazel_call info output_path 2>/dev/null)/_coverage/_coverage_report.dat
  [ -s "$report" ] || die "no coverage report was written"
  "$PYTHON" "$DEV/coverage_summary.py" "$report"
  say "report: $report"
  return "$status"
}
