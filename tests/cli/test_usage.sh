#!/bin/sh
# test: label=quick timeout=60 isa=any
# What every command does with help, wrong words and lost output: text, stream and exit status.
. "$(dirname "$0")/../script.sh"

# expect STATUS STREAM PATTERN COMMAND...: exit status, and a line on stdout or stderr that matches.
expect() {
    status=$1 stream=$2 pattern=$3
    shift 3
    rc=0
    "$@" >out 2>err </dev/null || rc=$?
    if [ $rc != "$status" ] || ! grep -q -e "$pattern" "$stream"; then
        echo "FAILED: $*"
        echo "  expected status $status and '$pattern' on $stream; got status $rc"
        sed 's/^/  out: /' out | head -n 5
        sed 's/^/  err: /' err | head -n 5
        bad=1
    elif [ "$status" = 2 ] && [ "$(wc -l <err)" -gt 1 ] && [ "$pattern" != '^usage' ]; then
        echo "FAILED: $*: more than one line of complaint"
        bad=1
    fi
}

expect 0 out '^usage: penstock' "$PENSTOCK" --help
expect 0 out '^penstock [0-9]' "$PENSTOCK" --version
expect 2 err '^usage' "$PENSTOCK"
expect 2 err "^penstock: unknown command 'trian'; did you mean 'train'" "$PENSTOCK" trian
for command in train generate simulate plan inspect convert tokenize bench report doctor; do
    expect 0 out "penstock $command" "$PENSTOCK" $command --help
    expect 2 err '^penstock: .*--nosuch' "$PENSTOCK" $command --nosuch
done
expect 0 out 'micro_batch' "$PENSTOCK" train --help
expect 0 out 'all or 0: the whole' "$PENSTOCK" train --help
expect 2 err '^penstock: too few operands' "$PENSTOCK" train
expect 2 err '^penstock: .*nosuch.yaml' "$PENSTOCK" train nosuch.yaml
expect 2 err '^penstock: ' "$PENSTOCK" train nosuch.yaml -n 0
expect 2 err '^penstock: .*many operands' "$PENSTOCK" doctor now
expect 2 err '^penstock: .*--temperature' "$PENSTOCK" generate runs/x --temperature -1
expect 2 err '^penstock: .*nosuch' "$PENSTOCK" generate nosuch
expect 2 err '^penstock: .*nosuch' "$PENSTOCK" inspect nosuch
expect 2 err '^penstock: too few operands' "$PENSTOCK" convert one

# what other programs have
expect 2 err "^penstock: train: unknown option '--gpus': -n RANKS .*parallel.device=cuda" \
    "$PENSTOCK" train x.yaml --gpus 4
expect 2 err "'--nproc_per_node': -n RANKS" "$PENSTOCK" train -q --nproc_per_node=4 x.yaml
expect 2 err "'--learning-rate'; write keys of the run file without dashes: train.lr=VALUE" \
    "$PENSTOCK" train x.yaml --learning-rate 1e-3
expect 2 err "'--steps'; .*train.steps=VALUE" "$PENSTOCK" plan x.yaml --steps=3
expect 2 err "did you mean '--ranks'" "$PENSTOCK" train --rank 3 x.yaml
expect 2 err "'--top-p'; --help" "$PENSTOCK" doctor --top-p

# simulate
expect 2 err '^penstock: nothing to simulate' "$PENSTOCK" simulate
expect 2 err '^penstock: .*--stages' "$PENSTOCK" simulate --schedule 1f1b
expect 2 err '^penstock: .*three durations' "$PENSTOCK" simulate --schedule 1f1b -p 4 -m 8 --times 1,2
expect 2 err 'did you mean .gpipe' "$PENSTOCK" simulate --schedule gpip --stages 4 --micro-batches 8
expect 0 out 'makespan  33.000000 ms' "$PENSTOCK" simulate --schedule 1f1b --stages 4 --micro-batches 8
expect 0 out 'makespan  30.000000 ms' "$PENSTOCK" simulate --schedule 1f1b-early --stages 4 --micro-batches 8
expect 0 out ' 0 with a start or end that differs from the simulation' "$PENSTOCK" simulate --schedule gpipe --stages 3 --micro-batches 5 --execute
expect 0 out '"makespan_ns": 33000000' "$PENSTOCK" simulate --schedule gpipe --stages 4 --micro-batches 8 --json
expect 0 out makespan "$PENSTOCK" simulate --schedule 1f1b --stages 2 --micro-batches 4 --svg t.svg --trace t.json
grep -q '</svg>' t.svg && grep -q traceEvents t.json || { echo "FAILED: --svg or --trace wrote nothing"; bad=1; }
expect 2 err '^penstock: .*nowhere' "$PENSTOCK" simulate --schedule 1f1b -p 2 -m 4 --svg nowhere/t.svg

# doctor
expect 0 out '^instructions' "$PENSTOCK" doctor
expect 0 out '^products  *oneDNN.s sgemm' env PENSTOCK_ISA=generic "$PENSTOCK" doctor
expect 0 out '"libraries"' "$PENSTOCK" doctor --json

# lost output
if [ -w /dev/full ]; then
    rc=0; "$PENSTOCK" doctor >/dev/full 2>err || rc=$?
    [ $rc = 4 ] || { echo "FAILED: full standard output: status $rc, expected 4"; bad=1; }
fi
rc=0; "$PENSTOCK" --help >&- 2>err || rc=$?
[ $rc = 4 ] || { echo "FAILED: closed standard output: status $rc, expected 4"; bad=1; }
# a reader that has ended (| head) ends the command quietly
for command in --help 'simulate --schedule all -p 4 -m 8' doctor 'simulate --schedule 1f1b -p 2 -m 2 --transport self'; do
    { sleep 0.2; rc=0; "$PENSTOCK" $command 2>err || rc=$?; echo $rc >rc; } | true
    [ "$(cat rc)" = 141 ] && [ ! -s err ] || { echo "FAILED: $command | true: status $(cat rc): $(cat err)"; bad=1; }
done
exit $bad
