#!/bin/sh
# test: label=full timeout=180 isa=any
# penstock plan RUN.yaml, what takes seconds: orders that are solved for, the smallest cluster that would do, and profiles
# of another model or machine.
. "$(dirname "$0")/../script.sh"

write_run 2
weights() { sed -n 's/.*"weights_xxh64": *"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
step() { sed -n 's/^ *step_ns: \([0-9]*\).*/\1/p' "$1"; }

# a schedule or degrees that are given are no better than what the search finds when nothing is
echo 'model: {kind: gpt, preset: gpt2-xl}
data: {paths: [text.txt]}
train: {batch: 240, precision: bf16}' >xl.yaml
# free RUN CLUSTER GIVEN...: each of GIVEN at most 1 % shorter than what is found without
free() {
    run=$1 cluster=$2
    shift 2
    "$PENSTOCK" plan $run --cluster "$cluster" -o free.yaml >out || fail "free on $cluster"
    for given; do
        "$PENSTOCK" plan $run --cluster "$cluster" $given -o given.yaml >out || fail "$given on $cluster"
        [ $(($(step free.yaml) * 100)) -le $(($(step given.yaml) * 101)) ] ||
            fail "$run on $cluster: $(step free.yaml) ns, with $given $(step given.yaml)"
    done
}
free run.yaml '1x8 h100 nvlink:900GB/s' schedule=dualpipev schedule=zb-v schedule=interleaved pipeline=2 micro_batch=2 data=4
free xl.yaml '2x8 h100 ib:4x200Gb/s/2' schedule=dualpipev schedule=zb-v micro_batch=5 pipeline=8 'pipeline=4 data=4'
free xl.yaml '2x8 h200 ib:400Gb/s' schedule=dualpipev schedule=1f1b
free xl.yaml '4x2 h100 ib:200Gb/s' schedule=dualpipev
free xl.yaml '2x4 a100-80 ib:100Gb/s' schedule=dualpipev schedule=zb-v

# nor where links are slow
echo 'model: {kind: gpt, preset: gpt2}
data: {paths: [text.txt]}
train: {batch: 64}' >gpt2.yaml
echo 'model: {kind: gpt, preset: nano}
data: {paths: [text.txt]}
train: {batch: 16}' >nano.yaml
echo 'model: {kind: mlp, layers: 5, channels: 128, context: 128}
data: {paths: [text.txt]}
train: {batch: 12}' >mlp.yaml
free xl.yaml '4x8 h100 ib:10Gb/s' schedule=dualpipev data=4
free gpt2.yaml '4x1 h100 ethernet:10Gb/s' schedule=dualpipev recompute=selective micro_batch=4
free gpt2.yaml '8x1 h100 ethernet:10Gb/s' zero=0 schedule=zb-v pipeline=2
free gpt2.yaml '1x3 h100 + 2x2 v100 ib:25Gb/s' micro_batch=8
free nano.yaml '2x2 cpu ib:100Mb/s' tensor=2 micro_batch=8 schedule=zb-h2
free mlp.yaml '4x1 v100 ib:100Mb/s' micro_batch=1 schedule=zb-h2
grep -q '^fewer  .* -n 1' out || fail "nothing is said of fewer devices: $(cat out)"

# new weights come from all owners at once: replicas that share out the step wait for no single link
for zero in 0 1; do
    "$PENSTOCK" plan gpt2.yaml --cluster '8x1 h100 ethernet:10Gb/s' batch=32 micro_batch=1 pipeline=1 data=8 schedule=1f1b \
        zero=$zero -o zero$zero.yaml >out || fail "zero $zero"
done
[ $(($(step zero1.yaml) * 100)) -le $(($(step zero0.yaml) * 103)) ] || fail "zero 1: $(step zero1.yaml), 0: $(step zero0.yaml)"

# an order that is solved for is found again by the run, and no longer than any that has a name
"$PENSTOCK" plan run.yaml -n 3 layers=3 pipeline=3 micro_batch=1 recompute=none schedule=solved -o solved.yaml >out || fail "solved"
grep -q '^layout .* solved, ' out && grep -q '^schedule: solved' solved.yaml || fail "not solved: $(cat out)"
"$PENSTOCK" plan run.yaml -n 3 layers=3 pipeline=3 micro_batch=1 recompute=none schedule=zb-h1 -o named.yaml >out || fail "named"
[ "$(step solved.yaml)" -le "$(step named.yaml)" ] || fail "solved: $(step solved.yaml), zb-h1: $(step named.yaml)"
for plan in solved named; do "$PENSTOCK" train -q run.yaml transport=self layers=3 plan=$plan.yaml || fail "train $plan"; done
[ "$(weights runs/run)" ] && [ "$(weights runs/run)" = "$(weights runs/run-2)" ] || fail "other weights by a solved order"
[ "$(step solved.yaml)" = "$(step runs/run/plan.yaml)" ] || fail "solved, planned $(step solved.yaml), run $(step runs/run/plan.yaml)"


# the smallest cluster that fits is enough, and no smaller one; as of processors, for products of a GPU have 32 MiB of
# workspace, which counts where the module is
expect_plan 4 'the smallest cluster of this kind on which a layout fits: [0-9]* nodes, [0-9]* devices$' run.yaml device=cpu --cluster '2x1 h100 memory:260KiB ib:400Gb/s'
fits() { "$PENSTOCK" plan run.yaml device=cpu layers=4 channels=256 --cluster "$1x1 h100 memory:24MiB ib:400Gb/s" >out 2>err; }
expect_plan 4 'a layout fits: [0-9]* nodes, [0-9]* devices, assuming ib:400Gb/s between nodes' run.yaml device=cpu layers=4 channels=256 --cluster '1x1 h100 memory:24MiB'
nodes=$(sed -n 's/.*a layout fits: \([0-9]*\) nodes.*/\1/p' err)
fits "$nodes" || fail "it does not fit on $nodes nodes, as was said"
! fits $((nodes - 1)) || fail "it fits on less than $nodes nodes"

# a profile (of one rank, which has no peer) of another model is refused, or forced
"$PENSTOCK" profile run.yaml -n 1 --seconds 0.01 -o own.yaml >out || fail "profile of one rank"
expect_plan 2 'the profile is of another model' run.yaml -n 1 channels=48 --profile own.yaml
"$PENSTOCK" plan run.yaml -n 1 channels=48 --profile own.yaml --force >out 2>err || fail "forced: $(cat err)"
grep -q '^costs  *profile own.yaml' out && [ "$(grep -c 'were not measured' err)" = 1 ] || fail "forced: $(cat out err)"
sed 's/cpu: "[^"]*"/cpu: "Z80"/' own.yaml >z80.yaml
"$PENSTOCK" plan run.yaml -n 1 --profile z80.yaml --force >out 2>err || fail "forced: $(cat err)"
grep -q "z80.yaml is used although it does not match (parallel.profile_force): .*measured with processor 'Z80'" err || fail "what --force overrode is not said: $(cat err)"
expect_plan 2 'which the cluster does not have' run.yaml --cluster '1x1 h100' --profile own.yaml --force

exit $bad
