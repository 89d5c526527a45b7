#!/usr/bin/env bash
# Slurm's Epilog: gives the job's lease back, and removes what the node knows of it. It runs as root after
# the job, however that ended, and does nothing for a job without a lease.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$here/lease_of_job.sh"

read_settings "$here"
need_job
end_lease "$folder"
