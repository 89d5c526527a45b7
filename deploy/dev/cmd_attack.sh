help_text() {
  cat <<'TEXT'
Usage: ./dev attack [--suite=NAME]... [--device=NAME] [--server_flag=FLAG]...

Builds and starts a server whose workers attack it and everything around them once their jail is closed,
beside another tenant's program that checks its results. Each attack is made once more in a worker
without the layers of the jail that stop it, where it must get through. Root is needed for that part.
One line an attack, then `attack: S of N stopped, D neighbours disturbed`; exit status 0 when S = N and
D = 0. docs/security.md says what the layers are.
  --suite    this suite only: escape
  --device   where kernels run: cpu (default) or cuda
TEXT
}

main() {
  need_build
  say "building the server, the client library and the attacks"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //tests/attack:all //tests/chaos:long_program \
    //examples:vector_add || die "the build failed"
  exec "$PYTHON" -u "$ROOT/tests/attack/attack.py" --bazel_bin="$(bazel_bin)" "$@"
}
