#!/bin/sh
# test: label=full timeout=180 isa=any
# Ranks started one by one on several hosts (here: host names, so that they share no heartbeat): all end a run in good
# order; when one is killed, rank 0 or another, the others leave with status 3 and say who it was.
set -u
unshare --uts true 2>/dev/null || { echo "skipped: no UTS namespaces can be made here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
port=$((20000 + $$ % 10000))
fail() { echo "FAILED: $*"; bad=1; }
i=0
while [ $i -lt 60 ]; do
    echo "$i bottles of beer on the wall, and if one of them should fall"; i=$((i + 1))
done >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 3, heads: 2, channels: 32, context: 32}
data: {kind: text, paths: [text.txt]}
train: {batch: 8, micro_batch: 2}
parallel: {threads: 1}
END
export WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT PENSTOCK_SECRET=0123456789abcdef

# start NAME STEPS: three ranks; RANK.pid, NAME.RANK.log
start() {
    port=$((port + 1)) MASTER_PORT=$port
    for r in 0 1 2; do
        RANK=$r timeout 100 unshare --uts sh -c 'echo $$ >$RANK.pid; hostname host-$RANK; exec "$@"' sh \
            "$PENSTOCK" train run.yaml --runs "$1" train.steps="$2" >"$1.$r.log" 2>&1 &
        eval "job$r=$!"
    done
}
# finish RANK STATUS [CULPRIT]: the transport may notice before the connections do, and tells less
finish() {
    eval "wait \$job$1"; rc=$?
    [ $rc = "$2" ] || fail "$name, rank $1: status $rc, not $2: $(cat "$name.$1.log")"
    [ "$2" = 0 ] || grep -q "$3" "$name.$1.log" || fail "$name, rank $1: '$3' is not in: $(cat "$name.$1.log")"
}

name=good
start good 30
for r in 0 1 2; do finish $r 0; done
export PENSTOCK_FAULT=stall:rank=1,message=600
name=hang
start hang 10000000
unset PENSTOCK_FAULT
for r in 0 2; do finish $r 3 'rank 1'; done
finish 1 3 'rank 1 on host-1 hangs (asleep) during'
for victim in 2 0; do
    name=kill$victim
    start $name 10000000
    i=0
    while [ $i -lt 600 ] && ! grep -q '"step":' $name/run/metrics.jsonl 2>/dev/null; do
        sleep 0.1; i=$((i + 1))
    done
    kill -9 "$(cat $victim.pid)"
    if [ $victim = 2 ]; then
        finish 0 3 'rank 2'
        finish 1 3 'rank 2'
    else
        finish 1 3 'rank 0'
        finish 2 3 'rank 0'
    fi
    eval "wait \$job$victim"
done
exit $bad
