#!/bin/sh
# test: label=net timeout=120
# Real Slurm: a controller and two node daemons on this machine. srun --mpi=pmix starts four ranks on both nodes, which
# end with the same weights as four local ones, and with a plan that rank 0 finds (parallel.plan auto) as one process has
# with that plan; a killed rank is named.
. "$(dirname "$0")/../script.sh"
skip() { echo "skipped: $*"; exit 77; }
for program in slurmctld slurmd munged srun; do
    command -v $program >/dev/null 2>&1 || skip "no $program here (apt-get install slurm-wlm munge)"
done
[ "$(id -u)" = 0 ] || skip "node daemons need root"

daemons=''
take_down() {
    for pid in $daemons; do kill -9 "$pid" 2>/dev/null; done
    # job steps, and what they run
    for pid in $(grep -lsz "^SLURM_CONF=$folder/" /proc/[0-9]*/environ | cut -d / -f 3); do
        [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null
    done
    rm -rf "$folder"
}
trap take_down EXIT
trap 'exit 1' INT TERM HUP
host=$(hostname -s)
port=$((20000 + $$ % 20000))
chmod 755 "$folder"
mkdir state spool.n1 spool.n2 tmp.n1 tmp.n2 munge
chmod 755 munge
head -c 1024 /dev/urandom >munge/key
chmod 600 munge/key
cat >slurm.conf <<END
ClusterName=penstock
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmctldPidFile=$folder/ctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/ctld.log
SlurmdLogFile=$folder/slurmd.%n.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
TmpFS=$folder/tmp.%n
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
SlurmUser=$(id -un)
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
ReturnToService=2
KillWait=5
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
# begin COMMAND...: a daemon that stays in the foreground
begin() {
    "$@" </dev/null >>daemons.log 2>&1 &
    daemons="$daemons $!"
}
begin munged --foreground --force --key-file=munge/key --socket=munge/socket --pid-file=munge/pid \
    --seed-file=munge/seed \
    --log-file=munge/log --num-threads=2
i=0
while [ $i -lt 100 ] && [ ! -S munge/socket ]; do sleep 0.1; i=$((i + 1)); done
begin slurmctld -D -i -f "$folder/slurm.conf"
for node in n1 n2; do begin slurmd -D -N $node -f "$folder/slurm.conf"; done
i=0
while [ $i -lt 300 ] && [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 2 ]; do sleep 0.1; i=$((i + 1)); done
[ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] || { cat daemons.log ./*.log; fail 'the nodes do not come up'; exit 1; }

i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
model: {kind: gpt, preset: nano, layers: 4}
data: {kind: text, paths: [text.txt]}
train: {batch: 4, micro_batch: 1, steps: 3}
parallel: {threads: 1}
END
hash_of() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
job() { timeout 60 srun --mpi=pmix -N 2 -n 4 --overcommit --kill-on-bad-exit=1 "$PENSTOCK" train run.yaml "$@"; }
timeout 60 "$PENSTOCK" train run.yaml name=local -n 4 -q || fail 'four local ranks'
job name=slurm >slurm.log 2>&1 || fail "srun: $(cat slurm.log)"
[ -n "$(hash_of runs/local)" ] && [ "$(hash_of runs/local)" = "$(hash_of runs/slurm)" ] ||
    fail "other weights: $(cat slurm.log)"

job name=auto plan=auto >auto.log 2>&1 || fail "srun, plan auto: $(cat auto.log)"
[ "$(grep -c '^planned: ' auto.log)" = 1 ] || fail "not planned once: $(cat auto.log)"
timeout 60 "$PENSTOCK" train run.yaml name=by_plan -q transport=self plan=runs/auto/plan.yaml || fail "by srun's plan"
[ -n "$(hash_of runs/auto)" ] && [ "$(hash_of runs/auto)" = "$(hash_of runs/by_plan)" ] ||
    fail "other weights by srun's plan: $(cat auto.log)"

job name=kill train.steps=10000 >kill.log 2>&1 &
run=$!
i=0
while [ $i -lt 300 ] && ! grep -q '"loss":' runs/kill/metrics.jsonl 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
kill -9 "$(grep -lsz '^PMIX_RANK=2$' $(grep -lsz "^SLURM_CONF=$folder/" /proc/[0-9]*/environ) | cut -d / -f 3)"
wait $run && fail 'a killed rank is nothing'
grep -qE 'rank 2 on n2|the link to rank 2 failed' kill.log || fail "nobody names rank 2: $(cat kill.log)"

# What --signal=USR1 and the end of the time ask for: a checkpoint, and training goes on; then the last one, and a
# status that no scheduler takes for success.
job name=asked train.steps=100000 >asked.log 2>&1 &
run=$!
# until_there TEST...
until_there() {
    i=0
    while [ $i -lt 300 ] && ! "$@" 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
}
until_there grep -q '"loss":' runs/asked/metrics.jsonl
scancel --signal=USR1 "$(squeue -h -t running -o %i)"
until_there grep -q '"event": *"checkpoint"' runs/asked/metrics.jsonl
grep -q '"event": *"checkpoint"' runs/asked/metrics.jsonl || fail "SIGUSR1 saves nothing: $(cat asked.log)"
scancel --signal=TERM "$(squeue -h -t running -o %i)"
wait $run
rc=$?
[ $rc = 143 ] || fail "SIGTERM to the job: status $rc, not 143: $(cat asked.log)"
grep -q 'stopped after step' asked.log || fail "SIGTERM to the job: $(cat asked.log)"
exit $bad
