#!/usr/bin/env bash
# Slurm's TaskProlog: tells the programs of a job where its lease is. It runs as the job's user, and
# prints commands for Slurm. A job that should have a lease and has none fails here.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$here/lease_of_job.sh"

read_settings "$here"
need_job
[ -d "$folder" ] || exit 0
if [ -e "$folder/why" ]; then
  echo "print warpline: no lease for this job: $(cat "$folder/why")"
  exit 1
fi
# Those of the shell from which the job was submitted are of another lease.
for name in WARPLINE_ENDPOINT WARPLINE_TOKEN_FILE WARPLINE_LEASE_KEY; do
  echo "unset $name"
done
for variable in "${environment[@]}" "WARPLINE_LEASE_FOLDER=$folder"; do
  echo "export $variable"
done
