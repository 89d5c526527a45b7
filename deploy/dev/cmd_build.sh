help_text() {
  cat <<'TEXT'
Usage: ./dev build [--asan|--tsan|--clang|--dbg] [BAZEL OPTIONS] [TARGETS]

Builds the targets (default: everything, //...), optimized unless a configuration is named:
  --asan     address and undefined-behaviour sanitizers
  --tsan     thread sanitizer
  --clang    clang with its thread-safety analysis
  --dbg      debug build
Results are kept in ~/.cache/warpline-bazel; beyond WARPLINE_BUILD_CACHE_GB (30) the oldest go.
TEXT
}

main() {
  parse_build_options "$@"
  split_targets "${REST[@]}"
  if [ "$CONFIG" = clang ]; then need_build clang; else need_build; fi
  say "building ${TARGETS[*]} (configuration $CONFIG)"
  bazel_call build --config="$CONFIG" "${FLAGS[@]}" -- "${TARGETS[@]}"
}
