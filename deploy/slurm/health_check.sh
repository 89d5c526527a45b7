#!/usr/bin/env bash
# Slurm's HealthCheckProgram: gives back the leases of jobs that are no longer on this node, and whose
# epilog has not run: the node was away when Slurm gave the job up. It runs as root.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$here/lease_of_job.sh"

read_settings "$here"
# The folders first: a job whose prolog begins now is not among them.
shopt -s nullglob
folders=("$state"/*/)
[ ${#folders[@]} -gt 0 ] || exit 0
node=${SLURMD_NODENAME:-$(hostname -s)}
# Where Slurm does not answer, everything stays as it is.
here_now=$("$squeue" --noheader --nodelist="$node" --format=%A \
  --states=CONFIGURING,RUNNING,SUSPENDED,STOPPED,COMPLETING,STAGE_OUT,SIGNALING,RESIZING) || {
  say "Slurm does not say which jobs are on this node"
  exit 0
}
for path in "${folders[@]}"; do
  job=$(basename "$path")
  if ! grep -qx "$job" <<<"$here_now"; then
    say "job $job is not on this node: its lease is given back"
    end_lease "$state/$job"
  fi
done
