help_text() {
  cat <<'TEXT'
Usage: ./dev compdb

Builds everything (generated headers must exist) and writes compile_commands.json at the root, for
clangd, clang-tidy and editors.
TEXT
}

write_compilation_database() {
  need_build
  say "building, so that generated headers exist"
  bazel_call build --config=opt --keep_going //... || say "warning: the build failed; some headers may be missing"
  "$PYTHON" "$ROOT/deploy/dev/compile_commands.py"
}

main() {
  [ $# -eq 0 ] || die "compdb: takes no arguments"
  write_compilation_database
}
