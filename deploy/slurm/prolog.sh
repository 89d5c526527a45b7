#!/usr/bin/env bash
# Slurm's Prolog: gets a lease for the job, and holds it for the job's programs on this node. It runs as
# root before the job does. docs/slurm.md says how a job asks for a lease.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$here/lease_of_job.sh"

# request: sets `asked` to the options of `warpline hold` that the job's comment asks for. Returns 1 where the
# job asks for no lease, and sets `wrong` where it cannot be understood.
request() {
  local word pair words pairs
  asked=()
  wrong=
  read -ra words <<<"${SLURM_JOB_COMMENT:-}"
  for word in "${words[@]}"; do
    case "$word" in
      warpline) return 0 ;;
      warpline:*)
        IFS=, read -ra pairs <<<"${word#warpline:}"
        for pair in "${pairs[@]}"; do
          # A comment is the user's. Nothing else of it gets into the command of root's process.
          if [[ $pair =~ ^(memory=[0-9]+[KMGT]iB|(gpus|sessions)=[0-9]+|slice=[A-Za-z0-9_][A-Za-z0-9._-]*)$ ]]; then
            asked+=("--$pair")
          else
            wrong="the job's comment asks for ${pair@Q}: expected memory=4GiB, gpus=1, sessions=1 or slice=NAME"
          fi
        done
        return 0
        ;;
    esac
  done
  for word in $partitions; do
    [ "$word" != "${SLURM_JOB_PARTITION:-}" ] || return 0
  done
  return 1
}

# find_credential: sets `credential` to the file that counts for the job; to nothing where none is sent.
find_credential() {
  local file
  credential=
  [ -n "$credentials" ] || return 0
  check_owned "$credentials"
  for file in "users/${SLURM_JOB_USER:-}" "partitions/${SLURM_JOB_PARTITION:-}" default; do
    # A name that would lead elsewhere is nobody's.
    [[ $file =~ ^([a-z]+/[A-Za-z0-9_][A-Za-z0-9._@-]*|default)$ ]] || continue
    [ -f "$credentials/$file" ] || continue
    check_owned "$credentials/$file"
    credential=$credentials/$file
    return 0
  done
  refuse "the operator has set up no tenant for the user ${SLURM_JOB_USER:-} or the partition ${SLURM_JOB_PARTITION:-}"
}

# make_folder: makes the job's folder, empty.
make_folder() {
  mkdir -p -m 755 "$state"
  check_owned "$state"
  # A job that was requeued has its number already.
  end_lease "$folder"
  mkdir -m 755 "$folder"
}

# refuse WHY: the job's tasks will fail and say why; the node goes on.
refuse() {
  say "job $SLURM_JOB_ID gets no lease: $1"
  printf '%s\n' "$1" >"$folder/why"
  exit 0
}

# start_holder: starts `warpline hold` apart from this script, which Slurm ends with all of its group. Its
# number is there before it runs.
start_holder() {
  local command prefix=()
  command=(env -i "PATH=$PATH" "${environment[@]}")
  [ -z "$credential" ] || command+=("WARPLINE_CREDENTIAL_FILE=$credential")
  command+=("$warpline" hold "--folder=$folder" "--endpoint=$endpoint" "--reader=$SLURM_JOB_UID" "--wait=$wait"
    "${options[@]}" "${asked[@]}")
  # It is root for its files' sake, and needs none of root's rights.
  [ "$EUID" != 0 ] || prefix=(setpriv --no-new-privs --inh-caps=-all --bounding-set=-all)
  (umask 077 && : >"$folder/log")
  setsid "${prefix[@]}" bash -c '
    line=$(cat "/proc/$$/stat")
    read -ra fields <<<"${line##*) }"
    echo "$$ ${fields[19]}" >"$1/holder"
    exec "${@:2}"' warpline-holder "$folder" "${command[@]}" </dev/null >>"$folder/log" 2>&1 &
  starting=$!
}

main() {
  local code=0 why
  read_settings "$here"
  need_job
  request || exit 0
  [[ ${SLURM_JOB_UID:-} =~ ^[0-9]+$ ]] || die "Slurm starts this script: SLURM_JOB_UID is not set"
  make_folder
  [ -z "$wrong" ] || refuse "$wrong"
  find_credential
  start_holder
  while [ ! -e "$folder/token" ] && [ -n "$(started "$starting")" ]; do
    sleep "$LOOK_EVERY_S"
  done
  [ ! -e "$folder/token" ] || exit 0
  wait "$starting" || code=$?
  why=$(tail -n 1 "$folder/log")
  # 4: no server answered. Other jobs would fare no better. A job without room is no fault of the node, and its
  # user may have brought that about.
  if [ "$code" = 4 ] && [ "$no_lease" = drain ]; then
    rm -rf -- "$folder"
    die "job $SLURM_JOB_ID gets no lease: $why"
  fi
  refuse "$why"
}

main
