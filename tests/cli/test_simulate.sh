#!/bin/sh
# test: label=quick timeout=60
# simulate: closed forms of the makespan, the executor on the virtual clock and in real time, plans of runs, and wrong values.
. "$(dirname "$0")/../script.sh"

# (m+p-1)(F+B+W), and m(F+B+W)+(p-1)(F+B) where W does not hold the gradient back; F, B, W = 2, 3, 4 ms
for p in 1 2 3 7 16; do
    for m in 1 3 16 100; do
        for schedule in gpipe 1f1b 1f1b-early; do
            wanted=$(((m + p - 1) * 9))
            [ $schedule = 1f1b-early ] && wanted=$((m * 9 + (p - 1) * 5))
            "$PENSTOCK" simulate --schedule $schedule -p $p -m $m --times 2,3,4 --execute >out 2>err || fail "$schedule $p $m: $(cat err)"
            grep -q "^makespan  $wanted.000000 ms" out || fail "$schedule -p $p -m $m: $(grep makespan out), expected $wanted ms"
            grep -q ' 0 with a start or end that differs from the simulation' out || fail "$schedule -p $p -m $m: $(tail -n 1 out)"
        done
    done
done

# expect STATUS PATTERN ARGUMENT...: exit status, and one line on stderr that matches
expect() {
    status=$1 pattern=$2
    shift 2
    rc=0
    "$PENSTOCK" simulate "$@" >out 2>err </dev/null || rc=$?
    [ $rc = "$status" ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "simulate $*: status $rc, expected $status and '$pattern': $(cat err)"
}
expect 2 '--stages.*from 1' --schedule 1f1b -p 0 -m 4
expect 2 '--micro-batches.*from 1' --schedule 1f1b -p 2 -m -4
expect 2 'more than can be simulated' --schedule 1f1b -p 4096 -m 1048576
expect 2 'three durations' --schedule 1f1b -p 2 -m 4 --times 1,2
expect 2 'three durations' --schedule 1f1b -p 2 -m 4 --times 1,-2,3
expect 2 'three durations' --schedule 1f1b -p 2 -m 4 --times nan,1,1
expect 2 '--transfer' --schedule 1f1b -p 2 -m 4 --transfer x
expect 2 'nosuch.yaml' nosuch.yaml
expect 2 'leave out --schedule' plan.yaml --schedule 1f1b
expect 2 '--times, --message and --memory need --schedule' plan.yaml --times 1,1,1
expect 2 'three durations' --schedule 1f1b -p 2 -m 4 --times 1,2,3:1,2
expect 2 'durations of 3 stages are given, but there are 2' --schedule 1f1b -p 2 -m 4 --times 1,2,3:1,2,3:1,2,3
expect 2 '--memory' --schedule solved -p 2 -m 4 --memory 1:2
expect 2 'memory limits of 3 ranks are given, but there are 2' --schedule solved -p 2 -m 4 --memory 1,2,3
expect 2 'the memory limit of rank 0 is 0, but one micro-batch needs 1' --schedule solved -p 2 -m 4 --memory 0.4
expect 2 'many operands' a b
expect 2 'exclude each other' --schedule 1f1b -p 2 -m 4 --transport self --execute
expect 2 'expected one of ucx' --schedule 1f1b -p 2 -m 4 --transport nosuch
expect 2 '--rounds.*from 1' --schedule 1f1b -p 2 -m 4 --transport self --rounds 0

# in real time: never faster than simulated, in one process and in three
for transport in self ucx; do
    "$PENSTOCK" simulate --schedule 1f1b -p 3 -m 6 --times 1,1,1 --transport $transport --rounds 2 --message 100000 --json >out 2>err ||
        fail "over $transport: $(cat err)"
    awk '/"makespan_ns": [0-9]/ { simulated = $2 + 0 }
         /"ratio"/ { ratio = $2 + 0 }
         /^      [0-9]/ { laps++; if ($1 + 0 < simulated) bad = 1 }
         END { exit !(simulated == 24000000 && laps == 2 && ratio >= 1 && !bad) }' out || fail "over $transport: $(cat out)"
done

# every schedule, alone and side by side
schedules=$("$PENSTOCK" simulate --schedule all -p 4 -m 16 | awk '/^$/ { exit } NR > 1 { print $1 }')
[ "$(echo "$schedules" | wc -l)" = 11 ] || fail "--schedule all: $schedules"
for schedule in $schedules; do
    "$PENSTOCK" simulate --schedule "$schedule" -p 4 -m 9 --times 3,4,2 --transfer 0.5 --execute >out 2>err ||
        fail "$schedule: $(cat err)"
    grep -q ' 0 with a start or end that differs from the simulation' out || fail "$schedule: $(tail -n 1 out)"
done
"$PENSTOCK" simulate --schedule all -p 8 -m 32 --chunks 2 --json >out || fail "--schedule all --json"
grep -c '"schedule"' out | grep -qx 6 || fail "with two chunks: $(cat out)"
"$PENSTOCK" simulate --schedule zb-v -p 2 -m 8 --message 0 --json >out || fail "zb-v --json"
awk '/"makespan":/ { makespan = $2 + 0 } /"lower_bound":/ { bound = $2 + 0 } /"bubble":/ { bubble = $2 + 0 }
     END { exit !(makespan == 24.5 && bound == 24.5 && bubble == 0) }' out || fail "zb-v: $(cat out)"

# solved: stages that differ, memory, messages; never longer than what fits, and never below the bound
set -- -p 5 -m 12 --times 3,4,2:2,2,2:5,3,4:1,2,1:4,4,4 --transfer 0.5 --memory 5,5,4,4,4
"$PENSTOCK" simulate --schedule solved "$@" --execute >out 2>err || fail "solved: $(cat err)"
grep -q ' 0 with a start or end that differs from the simulation' out && grep -q '^memory    fits --memory' out || fail "solved: $(cat out)"
awk '/^$/ { table = 0 } table && $5 > m[$1] + 0.0001 { bad = 1 } /^rank .*peak F to W/ { table = 1; m[0] = m[1] = 5; m[2] = m[3] = m[4] = 4 }
     END { exit bad || !m[0] }' out || fail "solved holds too much: $(cat out)"
"$PENSTOCK" simulate --schedule all "$@" >out || fail "all with --memory"
grep -q '^bubble  *idle share' out && grep -q '^peak F to W  .*--memory limits' out || fail "columns unexplained: $(cat out)"
awk '/^$/ { exit } $1 == "solved" { mine = $3; bound = $4; fits = !/not fit/ } NR > 1 && $1 != "solved" && !/not fit/ && (!least || $3 < least) { least = $3 }
     END { exit !(fits && mine <= least && mine >= bound) }' out || fail "solved beside others: $(cat out)"
grep -q '^gpipe .* does not fit$' out || fail "gpipe fits: $(cat out)"

expect 2 'has 2 chunks per rank, not 3' --schedule zb-v -p 2 -m 4 --chunks 3
expect 2 'has 1 chunk per rank, not 2' --schedule 1f1b -p 2 -m 4 --chunks 2
expect 2 '--chunks.*from 1' --schedule interleaved -p 2 -m 4 --chunks 0
expect 2 'only compares makespans' --schedule all -p 2 -m 4 --execute

# a run's plan; its run.yaml must lie beside it
echo "all work and no play makes jack a dull boy, all work and no play makes jack a dull boy" >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 10}
data: {kind: text, paths: [text.txt]}
train: {steps: 1, batch: 6, micro_batch: 2, warmup: 0}
END
"$PENSTOCK" train run.yaml -q -n 2 || exit 1
"$PENSTOCK" simulate runs/run/plan.yaml --execute >out 2>err || fail "plan: $(cat err)"
grep -q ' 0 with a start or end that differs from the simulation' out || fail "plan: $(tail -n 1 out)"
# messages that take 5 ms each: with post-validation the optimizer does not wait for the norm's way
for post in false true; do
    mkdir $post
    sed "s/post_validation: .*/post_validation: $post/" runs/run/run.yaml >$post/run.yaml
    "$PENSTOCK" inspect $post/run.yaml -n 2 >$post/plan.yaml && "$PENSTOCK" simulate $post/plan.yaml --transfer 5 --execute >$post/out 2>err ||
        fail "post-validation $post: $(cat err)"
    grep -q ' 0 with a start or end that differs from the simulation' $post/out || fail "post-validation $post: $(tail -n 1 $post/out)"
done
awk '/^makespan/ { ms[++n] = $2 } END { exit !(n == 2 && ms[1] > 20 && ms[2] > 20 && ms[2] < ms[1]) }' false/out true/out ||
    fail "slow messages: $(grep makespan false/out true/out)"
"$PENSTOCK" simulate runs/run/plan.yaml --transport ucx --rounds 1 >out 2>err || fail "plan over ucx: $(cat err)"
grep -q '^over ucx .* in 1 round), .* x the simulated' out || fail "plan over ucx: $(cat out)"
"$PENSTOCK" simulate runs/run/plan.yaml --json >out 2>err && grep -q '"ranks"' out || fail "plan --json: $(cat err)"
"$PENSTOCK" simulate runs/run/plan.yaml --report plan.html >out 2>err || fail "plan --report: $(cat err)"
for part in plan numbers graph timeline times memory; do grep -q "id=\"$part\"" plan.html || fail "plan --report: no $part"; done
expect 2 'nowhere' runs/run/plan.yaml --report nowhere/p.html
expect 2 'needs a plan' --schedule 1f1b --stages 2 --micro-batches 2 --report plan.html
# what a change of the cluster would do; one that is none leaves the step as it is
"$PENSTOCK" simulate runs/run/plan.yaml --what-if device.1.speed=1 >out 2>err || fail "--what-if: $(cat err)"
awk '/^makespan/ { ms[++n] = $2 } /^exposed/ { exposed++ } END { exit !(n == 2 && ms[1] == ms[2] && exposed == 2) }' out &&
    grep -q '^change .*(+0.00%)' out || fail "no change: $(cat out)"
"$PENSTOCK" simulate runs/run/plan.yaml --what-if device.1.speed=0.25 --what-if device.0.memory=1K --execute >out 2>err ||
    fail "--what-if: $(cat err)"
awk '/^makespan/ { ms[++n] = $2 } END { exit !(n == 2 && ms[2] > 1.5 * ms[1]) }' out && grep -q 'of 1024: exceeds the limit' out &&
    grep -q ' 0 with a start or end that differs from the simulation' out || fail "a slower device: $(cat out)"
"$PENSTOCK" simulate runs/run/plan.yaml --what-if link.device.latency=10ms --json >out 2>err || fail "--what-if: $(cat err)"
awk '/"makespan":/ { ms[++n] = $2 + 0 } /"stages": [0-9]+,?$/ && $2 + 0 > 1e7 { exposed = 1 } /"what_if"/ { w = 1 }
     END { exit !(n == 2 && ms[2] > ms[1] + 20 && exposed && w) }' out || fail "slower messages: $(cat out)"
expect 2 'expected 0 to 1' runs/run/plan.yaml --what-if device.2.speed=1
expect 2 'what-if needs a plan' --schedule 1f1b -p 2 -m 4 --what-if device.0.speed=1
# nodes whose ranks share a NIC: the executor agrees, more NICs are no slower, and unequal replicas are what the plan says
for nics in 1 2; do
    mkdir nics$nics
    cat >nics$nics/run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 10}
data: {kind: text, paths: [text.txt]}
train: {steps: 1, batch: 6, micro_batch: 1, warmup: 0}
parallel: {pipeline: 2, data: 2, replicas: [4, 2], cluster: "2x2 cpu ethernet:${nics}x10Mb/s"}
END
    "$PENSTOCK" inspect nics$nics/run.yaml >nics$nics/plan.yaml &&
        "$PENSTOCK" simulate nics$nics/plan.yaml --execute >nics$nics/out 2>err || fail "$nics NICs: $(cat err)"
    grep -q ' 0 with a start or end that differs from the simulation' nics$nics/out && grep -q '4 + 2 micro-batches in 2 replicas' nics$nics/out ||
        fail "$nics NICs: $(cat nics$nics/out)"
done
awk '/^makespan/ { ms[++n] = $2 } END { exit !(n == 2 && ms[2] < ms[1]) }' nics1/out nics2/out ||
    fail "NICs: $(grep makespan nics1/out nics2/out)"
cp runs/run/plan.yaml alone.yaml && mv run.yaml away.yaml
expect 2 'run.yaml' alone.yaml
expect 2 'not a key of a plan' runs/run/run.yaml
sed 's/^ranks: 2/ranks: 3/' runs/run/plan.yaml >runs/run/edited.yaml
expect 2 'edited.yaml' runs/run/edited.yaml
sed 's/^graph_hash: .*/graph_hash: "0123456789abcdef"/' runs/run/plan.yaml >runs/run/edited.yaml
expect 2 'another model' runs/run/edited.yaml
expect 2 'nowhere' runs/run/plan.yaml --trace nowhere/t.json
exit $bad
