#!/bin/sh
# test: label=quick timeout=60 isa=any
# penstock plan --tokens: a table of device counts, whose numbers follow from the plan of each; the choice, whose layout is
# printed and written; and counts, prices and deadlines that contradict the cluster.
. "$(dirname "$0")/../script.sh"
write_run 2
plan() { "$PENSTOCK" plan run.yaml --cluster '1x2 h100 ib:400Gb/s' --tokens 10M "$@" >out 2>err || fail "$*: $(cat err)"; }

plan --gpus 1,2,4 --price h100=2.5 --report page.html -o plan.yaml
for line in '^10M tokens: 78,125 steps of 128 tokens$' '^ *Chinchilla: .* trained parameters' '^      1  1 x 1 x 1 ' \
    '^      4  .*%' '^choice .* the fastest of these$' '^prices *h100 2.5 per hour' '^checkpoint .*1 GB/s' '^failures .*50,680'; do
    grep -q -e "$line" out || fail "no line '$line' in: $(cat out)"
done
grep -q 'id="counts"' page.html || fail "the page has no table of counts"
chosen=$(sed -n 's/^choice *\([0-9]*\) device.*/\1/p' out)
grep -q "^gpt,.* on $chosen device" out || fail "the layout of $chosen devices is not printed: $(head -n 1 out)"
grep -q "^ranks: $chosen" plan.yaml || fail "no plan for $chosen: $(grep ranks plan.yaml)"
"$PENSTOCK" simulate plan.yaml >simulated 2>err || fail "simulate the choice: $(cat err)"

# the numbers of each row, from each other and from a plan for this count alone
"$PENSTOCK" plan run.yaml --cluster '2x2 h100 ib:400Gb/s' --json >alone || fail "four alone"
plan --gpus 2,4 --price h100=2.5 --mtbf 1000 --storage 2GB/s --json
cat >check.py <<'END'
import json
j, alone = json.load(open("out")), json.load(open("alone"))
b = j["budget"]
assert [c["devices"] for c in b["counts"]] == [2, 4] and [c["nodes"] for c in b["counts"]] == [1, 2]
assert b["steps"] == -(-10_000_000 // 128) and b["mtbf_hours"] == 1000 and b["deadline_days"] is None
assert j["devices"] == b["chosen_devices"] and b["checkpoint_bytes"] == 12 * b["parameters"]
assert abs(b["chinchilla_tokens"] - 20 * b["parameters"]) < 1
near = lambda x, y: abs(x - y) <= 1e-9 * abs(y)
for c in b["counts"]:
    assert c["fits"] and near(c["tokens_per_s"], 128 / c["step_s"])
    assert near(c["days"] * 86400 * c["effective"], b["steps"] * c["step_s"])
    assert near(c["device_hours"], c["days"] * 24 * c["devices"])
    assert near(c["cost"], 2.5 * c["device_hours"]) and near(c["kwh"], 0.7 * c["device_hours"])
    assert near(c["failures"], c["device_hours"] / 1000)
    assert near(c["checkpoint_s"], b["checkpoint_bytes"] / 2e9 / c["nodes"])
four = b["counts"][1]
assert near(four["step_s"], alone["step_s"]) or four["step_s"] < 1.02 * alone["step_s"], (four, alone["step_s"])
best = min(b["counts"], key=lambda c: c["days"])
assert best["devices"] == b["chosen_devices"] and near(best["step_s"], j["step_s"])
END
! command -v python3 >/dev/null || python3 check.py 2>err || fail "$(cat err) $(cat out)"

# a deadline: the smallest that ends in time, with --gpus or with more and more nodes; or none does
plan --gpus 1,2,4 --days 10 --tokens 1B
grep -q '^choice *1 device, printed above: the smallest of these that ends within 10 days$' out || fail "10 days: $(cat out)"
plan --days 10 --tokens 1B
grep -q '^choice *2 devices, ' out || fail "10 days, whole nodes: $(cat out)"
plan --gpus 1,2 --days 0.001 --tokens 1B
grep -q 'the fastest of these; none ends within 0.001 days$' out || fail "a minute: $(cat out)"
"$PENSTOCK" plan run.yaml -n 2 --tokens 1M >out 2>err || fail "processors: $(cat err)"
grep -q '^ *2 .* - *- *-$\|^ *2 .*  -  .*  - ' out || fail "processors have no MFU, cost and energy: $(cat out)"

expect_plan 2 'gpus: 3 devices: the nodes of the cluster have 2 devices' run.yaml --cluster '1x2 h100' --tokens 1M --gpus 2,3
expect_plan 2 'no link between' run.yaml --cluster '1x2 h100' --tokens 1M --gpus 4
expect_plan 2 'no devices of kind v100, only H100' run.yaml --cluster '1x2 h100' --tokens 1M --price h100=1,v100=1
expect_plan 2 'the price of V100 is missing' run.yaml --cluster '1 h100 + 1 v100 ib:1Gb/s' --tokens 1M --price h100=1
expect_plan 2 'one step has 128 tokens' run.yaml -n 1 --tokens 100
expect_plan 2 'gpus needs --cluster' run.yaml --tokens 1M --gpus 2
expect_plan 2 'days needs --tokens' run.yaml --days 3
expect_plan 2 'from 0.001 to' run.yaml --tokens 1M --days 0
expect_plan 2 'leave those options out' --graph x --tokens 1M
expect_plan 4 'no layout.*fits' run.yaml --cluster '1x2 h100 memory:1KiB ib:1Gb/s' --tokens 1M --gpus 2,4
exit $bad
