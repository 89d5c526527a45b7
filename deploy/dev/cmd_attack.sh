help_text() {
  cat <<'TEXT'
Usage: ./dev attack [--suite=NAME]... [--minutes=N] [--sessions=N] [--seconds=N] [--device=NAME]
                    [--neighbours=N] [--every=N] [--server_flag=FLAG]...
       ./dev attack --prove [--suite=NAME]... [--only=ROW,...]

Builds and starts a server and attacks it, beside another tenant's program that checks its results. One
line an attack, then `attack: S of N stopped, D neighbours disturbed`; exit status 0 when S = N and D = 0.
docs/security.md says what stops them. The suites, of which the first eight are made without --suite:
  escape    workers attack everything around them once their jail is closed; each attack is made once more
            in a worker without the layers of the jail that stop it, where it must get through, for which
            root is needed
  accomplice a worker without a jail hands every descriptor to a process outside, which looks for the
            memory of the next tenant in them
  wire      what a client does over the network or from the server's host: malformed frames, addresses of
            others, memory beyond quotas, stolen sessions, floods; after each an honest client is served.
            That they get through without what stops them is shown by --prove.
            WARPLINE_ATTACK_SCALE=10 makes floods ten times as large
  residue   what memory of each kind that a session is given still holds of a former session of another
            tenant
  guard     kernels of one tenant that try to reach another's memory in the same context, without the guard
            and with it (tests/guard/escapes.txt)
  tier      tenants of the guarded tier attack each other in one process and one context, beside
            --neighbours (10) tenants with secrets whose addresses and handles the attackers know: kernels,
            graphs, stale addresses, calls, forged handles and tensor maps, what former sessions left, the
            kernels of tests/guard/escapes.txt (of these, with --every=N, each Nth), and rows of the suite
            wire. docs/security.md says what counts as stopped
  pool      what a stranger does at the ports of a scheduler and of a server that reports to it: sessions and
            calls, health, metrics, the page. In each row an honest program runs, the operator's actions are
            recorded, metrics are answered, no server is lost, and memory stays within 128 MiB
  paging    what tenants get by device memory that moves to the host: what is left in chunks and in host memory,
            workers that keep what they say they have unmapped or forge their answers, moves without end
  traffic   hostile traffic from several processes for --minutes (1): prints how many messages, and the
            server's memory, descriptors, threads and log at the start, at most and at the end
  share     an honest session beside --sessions (64) hostile ones that keep the processors busy, each time
            for --seconds (20): prints what it gets done of its fair share, a 65th of what it does alone,
            and ends with 1 below half of that
With --prove: copies the sources to ~/.cache/warpline, builds the programs there with switches for all
defences of tests/attack/mutations.toml, and makes each row of the suites wire, pool and paging, and some of
the suite tier, against a server (and scheduler) of its own without the defences that stop it. One line a row,
then `proved: P of N rows get through without their defence`; exit status 0 when P = N. The first time it
builds for some minutes.
  --suite    of this suite only: wire, tier, pool or paging
  --only     these rows only; without --prove, of the suites tier, pool and paging
Others:
  --device   where kernels run: cpu (default) or cuda
TEXT
}

# The sources with all mutations, and the server programs of them. Sets MUTATED to their bazel-bin.
build_mutated() {
  local name copy
  name=$(printf '%s' "$ROOT" | sha256sum | cut -c 1-8)
  copy="$CACHE/without-defences-$name"
  mkdir -p "$copy"
  "$PYTHON" "$ROOT/tests/attack/mutations.py" --copy="$copy" || die "the mutations do not apply"
  say "building the server with switches for its defences"
  cd "$copy"
  bazel_call build --config=opt -- //server/gpu_server:warpline-server //server/gpu_server:warpline-supervisor \
    //server/gpu_server:warpline-worker //server/gpu_server:warpline-keeper //server/gpu_server:warpline-relay //server/gpu_server:warpline-compiler \
    //server/gpu_server:warpline-mps //scheduler:warpline-scheduler //tools/cli:warpline || die "the build failed"
  MUTATED=$(bazel_bin)
  cd "$ROOT"
}

main() {
  local arg args=() mutated=()
  need_build
  say "building the server, the client library and the attacks"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //tests/attack/... //tests/chaos:long_program \
    //tests/guard:guard_attack //tests/hostile:attack //tests/hostile:unary_flood //examples:vector_add || die "the build failed"
  for arg in "$@"; do
    if [ "$arg" = --prove ]; then
      build_mutated
      mutated=(--prove="$MUTATED")
    else
      args+=("$arg")
    fi
  done
  exec "$PYTHON" -u "$ROOT/tests/attack/attack.py" --bazel_bin="$(bazel_bin)" "${mutated[@]}" "${args[@]}"
}
