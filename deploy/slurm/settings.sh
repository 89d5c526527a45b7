# Settings of Warpline's scripts for Slurm, in bash. The scripts read this file as root: it belongs to
# root, and others may not write to it. docs/slurm.md explains them.

# The `warpline` program of the node.
warpline=/usr/bin/warpline

# The server or scheduler that gives out leases: host:port, or several schedulers with commas between.
endpoint=

# Partitions whose jobs all get a lease, with spaces between. In others, the jobs that ask for one do.
partitions=

# Options of `warpline hold` for what a job does not say itself.
options=(--memory=4GiB)

# A folder for root alone with the credentials of tenants: users/NAME, partitions/NAME, default. The
# first of these that is there counts. Empty: none is sent.
credentials=

# Variables for the holder of the lease and for the programs of the job, such as WARPLINE_TLS_CA=/path.
# Every user can see them.
environment=()

# How long a job's prolog waits for a lease. Slurm's PrologEpilogTimeout has to be longer.
wait=60s

# The fate of a job when no server has answered in that time. `fail`: the job fails and says why. `drain`:
# the prolog fails, so that Slurm drains the node and requeues the job.
no_lease=fail

# A folder for what the node knows of its leases: one of root's that does not survive a restart of the node. Its
# file system has access control lists, as tmpfs does.
state=/run/warpline-slurm

# Slurm's program that lists jobs. Where its configuration is not in /etc/slurm: export SLURM_CONF=/path.
squeue=/usr/bin/squeue
