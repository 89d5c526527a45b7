help_text() {
  cat <<'TEXT'
Usage: ./dev attack [--suite=NAME]... [--minutes=N] [--sessions=N] [--seconds=N] [--device=NAME]
                    [--server_flag=FLAG]...

Builds and starts a server and attacks it, beside another tenant's program that checks its results. One
line an attack, then `attack: S of N stopped, D neighbours disturbed`; exit status 0 when S = N and D = 0.
docs/security.md says what stops them. The suites, of which the first two are made without --suite:
  escape    workers attack everything around them once their jail is closed; each attack is made once more
            in a worker without the layers of the jail that stop it, where it must get through, for which
            root is needed
  wire      what a client does over the network or from the server's host: malformed frames, addresses of
            others, memory beyond quotas, stolen sessions, floods; after each an honest client is served.
            WARPLINE_ATTACK_SCALE=10 makes floods ten times as large
  traffic   hostile traffic from several processes for --minutes (1): prints how many messages, and the
            server's memory, descriptors, threads and log at the start, at most and at the end
  share     an honest session beside --sessions (64) hostile ones that keep the processors busy, each time
            for --seconds (20): prints what it gets done of its fair share, a 65th of what it does alone,
            and ends with 1 below half of that
Others:
  --device   where kernels run: cpu (default) or cuda
TEXT
}

main() {
  need_build
  say "building the server, the client library and the attacks"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //tests/attack:all //tests/chaos:long_program \
    //tests/hostile:attack //examples:vector_add || die "the build failed"
  exec "$PYTHON" -u "$ROOT/tests/attack/attack.py" --bazel_bin="$(bazel_bin)" "$@"
}
