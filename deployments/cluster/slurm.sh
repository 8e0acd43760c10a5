#!/bin/sh
# A release that counts on the nodes of a SLURM job. Copy it, change the next lines, and submit:
#   sbatch slurm.sh SPEC OUT
#SBATCH --job-name=dp-release
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --time=04:00:00
set -eu

# On storage that every node mounts at this path; the ledger is not on it (docs/cluster.md).
: "${DP_RELEASE_HOME:=/srv/dp-release/home}"
: "${DP_RELEASE_STATE:=/srv/dp-release/state}"
: "${DP_RELEASE_LEDGER:=postgresql://dp_release@db.example/ledger?sslmode=verify-full}"
: "${DP_RELEASE_PROGRAM:=/srv/dp-release/program}"
: "${DP_RELEASE_TLS:=/srv/dp-release/tls}"
export DP_RELEASE_HOME DP_RELEASE_STATE DP_RELEASE_LEDGER

spec=$1 out=$2
PATH=$DP_RELEASE_PROGRAM/.venv/bin:$PATH
set -a
. "$DP_RELEASE_PROGRAM/deployments/cluster/dask.env"
set +a
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$DP_RELEASE_TLS/ca.pem"
export DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT="$DP_RELEASE_TLS/client.pem"
export DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY="$DP_RELEASE_TLS/client.key"
umask 077
ulimit -c 0
found=$DP_RELEASE_HOME/dask-$SLURM_JOB_ID.json

# The scheduler is on the job's first node, beside the release; its port is any that is free.
dask scheduler --protocol tls --port 0 --scheduler-file "$found" \
    --no-dashboard --dashboard-address 127.0.0.1:0 \
    --tls-ca-file "$DP_RELEASE_TLS/ca.pem" \
    --tls-cert "$DP_RELEASE_TLS/scheduler.pem" --tls-key "$DP_RELEASE_TLS/scheduler.key" &
scheduler=$!
trap 'kill $scheduler 2>/dev/null || true; rm -f "$found"' EXIT
until [ -s "$found" ]; do
    kill -0 $scheduler
    sleep 1
done

# One worker for each task of the job, with a thread for each of its processors. Since SLURM
# 22.05, `srun` does not take their number from the job.
srun --kill-on-bad-exit=0 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    dask worker --scheduler-file "$found" --protocol tls \
    --nthreads "$SLURM_CPUS_PER_TASK" --memory-limit "$((SLURM_CPUS_PER_TASK * 1000))MB" \
    --no-nanny --no-dashboard --dashboard-address 127.0.0.1:0 \
    --local-directory "${TMPDIR:-/tmp}" --death-timeout 60 \
    --tls-ca-file "$DP_RELEASE_TLS/ca.pem" \
    --tls-cert "$DP_RELEASE_TLS/dask-worker.pem" --tls-key "$DP_RELEASE_TLS/dask-worker.key" &

address=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$found")
dp-release run "$spec" --out "$out" --dask "$address" --json
