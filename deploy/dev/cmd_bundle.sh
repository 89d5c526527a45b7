help_text() {
  cat <<'TEXT'
Usage: ./dev bundle [--out DIR]

Builds and makes one folder (default dist/warpline) with server, client library, examples and
benchmark that runs on other Linux machines on x86-64 (glibc 2.34 or newer) without Bazel or our
packages. Its README.txt says how. Fails if any file in it would need a newer system.
TEXT
}

main() {
  local commit
  need_build bundle
  say "building what goes into the bundle"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //examples/... //bench/cuda/... \
    //deploy:libwarpline_compat.so
  say "collecting libraries and licences"
  commit=$(git -c safe.directory='*' describe --always --dirty 2>/dev/null || echo unknown)
  "$PYTHON" "$ROOT/deploy/bundle.py" --bazel_bin="$(bazel_bin)" --cuda_home="$CUDA_HOME" \
    --commit="$commit" "$@"
}
