# Leases of Slurm's jobs: what prolog.sh, epilog.sh, task_prolog.sh and health_check.sh have in common.
#
# A job with a lease has the folder STATE/JOB of root's on its node:
#
#   endpoint, token, ...   what `warpline hold` keeps there; root and the job's user alone read the token
#   holder                 the process that holds the lease: its number, and when it was started
#   log                    what it has said; for root alone
#   why                    why there is no lease
#
# Each script ends with an error where the folder, the settings or the environment are not as they
# should be.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022

# How often something is looked at, and how long a holder may take to give its lease back.
LOOK_EVERY_S=0.1
MOST_LOOKS=300

say() { echo "warpline: $*" >&2; }

die() {
  say "$@"
  exit 1
}

# check_owned PATH: ends the script unless the file is this user's or root's, and nobody else may write to it.
check_owned() {
  local owner mode
  read -r owner mode < <(stat -L -c '%u %a' "$1") || die "there is no $1"
  [ "$owner" = 0 ] || [ "$owner" = "$EUID" ] || die "$1 belongs to another user"
  [ $((8#$mode & 8#022)) = 0 ] || die "others may write to $1"
}

# read_settings FOLDER: reads FOLDER/settings.sh.
read_settings() {
  check_owned "$1"
  check_owned "$1/settings.sh"
  # shellcheck source=deploy/slurm/settings.sh
  . "$1/settings.sh"
  [ -n "$endpoint" ] || die "$1/settings.sh names no endpoint"
  case "$no_lease" in
    fail | drain) ;;
    *) die "$1/settings.sh: no_lease is '$no_lease'; it has to be fail or drain" ;;
  esac
}

# need_job: sets `folder` to the folder of the job that Slurm's variables name.
need_job() {
  [[ ${SLURM_JOB_ID:-} =~ ^[0-9]+$ ]] || die "Slurm starts this script: SLURM_JOB_ID is not set"
  folder=$state/$SLURM_JOB_ID
}

# started PID: when the process was started, in ticks since the system was. Nothing for one that has
# ended, also where its parent has not asked for its status.
started() {
  local line fields
  line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  read -ra fields <<<"${line##*) }"
  [ "${fields[0]}" = Z ] || echo "${fields[19]}"
}

# holds FOLDER: whether the holder of the folder runs. Sets `holder` to its number.
holds() {
  local since
  holder=
  [ -s "$1/holder" ] || return 1
  read -r holder since <"$1/holder" && [ "$(started "$holder")" = "$since" ]
}

# end_lease FOLDER: has the holder give its lease back, and removes the folder.
end_lease() {
  local looks
  [ -d "$1" ] || return 0
  if holds "$1"; then
    kill -TERM "$holder" 2>/dev/null || true
    for ((looks = 0; looks < MOST_LOOKS; ++looks)); do
      holds "$1" || break
      sleep "$LOOK_EVERY_S"
    done
    if holds "$1"; then
      say "the holder of $1 does not end, and is killed: its lease ends when it is not renewed"
      kill -KILL "$holder" 2>/dev/null || true
    fi
  fi
  rm -rf -- "$1"
}
