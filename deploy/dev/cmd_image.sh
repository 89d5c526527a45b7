help_text() {
  cat <<'TEXT'
Usage: ./dev image [--bundle DIR] [--out DIR] [--try] | --relock

Makes container images as OCI layouts, a folder and a tar archive each (default dist/images): warpline
(server and scheduler), warpline-client (what pods get), warpline-injector (the webhook) and
warpline-model-server (an example), of a bundle and of Debian's packages at the versions of
deploy/image/packages.lock. Needs no daemon and no root; the same commit makes the same bytes. `skopeo copy oci-archive:FILE docker://REGISTRY/NAME:TAG` pushes one,
`ctr images import FILE` and `podman load -i FILE` take one as it is.
  --bundle DIR  of ./dev bundle; otherwise one is made first, in dist/warpline
  --try         also runs them, as root, in namespaces without a network: a pool with the CPU device, a
                program that has the client from an init container, the model server, and the webhook
  --relock      only writes packages.lock anew, with the versions that Debian has now
TEXT
}

main() {
  local bundle= out=$ROOT/dist/images try= stamp
  while [ $# -gt 0 ]; do
    case "$1" in
      --bundle) bundle=${2:?--bundle needs a folder}; shift ;;
      --bundle=*) bundle=${1#*=} ;;
      --out) out=${2:?--out needs a folder}; shift ;;
      --out=*) out=${1#*=} ;;
      --try) try=1 ;;
      --relock) exec "$PYTHON" "$ROOT/deploy/image/image.py" --cache="$CACHE/debs" --relock ;;
      *) die "image: unknown option '$1'" ;;
    esac
    shift
  done
  if [ -z "$bundle" ]; then
    (. "$DEV/cmd_bundle.sh" && main)
    bundle=$ROOT/dist/warpline
  fi
  stamp=$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || date +%s)
  "$PYTHON" "$ROOT/deploy/image/image.py" --cache="$CACHE/debs" --bundle="$bundle" --out="$out" --stamp="$stamp"
  if [ -n "$try" ]; then
    need_packages image
    "$PYTHON" "$ROOT/deploy/image/try_images.py" --images="$out" --bundle="$bundle"
  fi
}
