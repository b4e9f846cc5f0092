#!/bin/sh
# test: label=quick timeout=60
# plan: text and JSON of a small workload, and wrong input.
. "$(dirname "$0")/../script.sh"

cat >chain.json <<'END'
{"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0,
 "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 40, "fpgaLatency": 4, "isBackwardNode": 0, "size": 40},
           {"id": 2, "supportedOnFpga": 1, "cpuLatency": 40, "fpgaLatency": 4, "isBackwardNode": 0, "size": 40},
           {"id": 3, "supportedOnFpga": 1, "cpuLatency": 80, "fpgaLatency": 8, "isBackwardNode": 0, "size": 40}],
 "edges": [{"sourceId": 1, "destId": 2, "cost": 3}, {"sourceId": 2, "destId": 3, "cost": 0.5}]}
END
"$PENSTOCK" plan --graph chain.json >out 2>err || fail "$(cat err)"
grep -q '^max-load  8.5 ms  lower bound 8.5 ms  gap 0.00%: proven optimal$' out || fail "$(cat out)"
grep -q '^    0  1 accelerator  *8.5  *2: 1 2$' out || fail "$(cat out)"
"$PENSTOCK" plan --graph chain.json --devices 1 --memory 120 --json >out 2>err || fail "$(cat err)"
grep -q '^{"objective":16,"lower_bound":16,.*"devices":1,"tensor":1,"data":1,"load":16,"nodes":\[1,2,3\]}\]}$' out ||
    fail "$(cat out)"
"$PENSTOCK" plan --graph chain.json --devices 1 --memory 1KiB --json >out 2>err || fail "$(cat err)"
cat >graph.txt <<'END'
node1 -- Linear -- forward_compute_time=1.0, backward_compute_time=1.0, activation_size=1.0, parameter_size=0.0
node2 -- Linear -- forward_compute_time=3.0, backward_compute_time=3.0, activation_size=1.0, parameter_size=0.0
	node1 -- node2
END
"$PENSTOCK" plan --graph graph.txt --devices 4 --bandwidth 1e9 >out 2>err || fail "$(cat err)"
grep -q '^pipedream  0.002 s  lower bound 0.002 s' out || fail "$(cat out)"
sed 's/; [0-9.]* s$//' out >plain
"$PENSTOCK" plan --graph graph.txt --devices 4 --bandwidth 1GB/s >out 2>err && sed 's/; [0-9.]* s$//' out | cmp -s - plain ||
    fail "1GB/s: $(cat err out)"

"$PENSTOCK" plan --graph graph.txt --devices 2 --machines 2 --bandwidth 1e9 --between 1e8 --compression 1 --json >plan.json \
    2>err || fail "$(cat err)"
grep -q '"data":2,"group":0,"machines":2,"load":' plan.json || fail "$(cat plan.json)"
"$PENSTOCK" plan --graph graph.txt --devices 2 --machines 2 --bandwidth 1e9 --between 1e8 --compression 1 \
    --evaluate plan.json >out 2>err || fail "$(cat err)"
grep -q '^pipedream  0.002 s$' out && grep -q '^    0  2 gpus of 2 machines ' out || fail "$(cat out)"
"$PENSTOCK" plan --graph graph.txt --straight --cluster '1x1 h100 + 1x1 a100-80 ib:400Gb/s' >out 2>err || fail "$(cat err)"
grep -q '^    1  1 H100 ' out && grep -q '^    0  1 A100-80 ' out || fail "$(cat out)"
"$PENSTOCK" plan --graph chain.json --cluster '1x2 h100' >out 2>err || fail "$(cat err)"
grep -q '^max-load  8.5 ms ' out || fail "$(cat out)"

"$PENSTOCK" plan --graph "$SOURCE_DIR/tests/fuzz/corpus/planner/piper.json" --json >out 2>err || fail "$(cat err)"
ways='import json; assert all(len(s["nodes"]) == len(s["ways"]) for s in json.load(open("out"))["stages"])'
! command -v python3 >/dev/null || python3 -c "$ways" || fail "$(cat out)"
"$PENSTOCK" plan --graph "$SOURCE_DIR/tests/fuzz/corpus/planner/piper.json" >out 2>err || fail "$(cat err)"
grep -q '^piper  .*proven optimal$' out && grep -q '^    0  [0-9]* devices\{0,1\} x [12] ' out || fail "$(cat out)"

# expect PATTERN ARGUMENT...: status 2, and one line on stderr that matches; or another status
status=2
expect() {
    pattern=$1 rc=0
    shift
    "$PENSTOCK" plan "$@" >out 2>err </dev/null || rc=$?
    [ $rc = $status ] && grep -q -e "^penstock: .*$pattern" err && [ "$(wc -l <err)" = 1 ] ||
        fail "plan $*: status $rc, expected $status and '$pattern': $(cat err)"
}
expect 'no run file; usage'
expect 'nosuch.json: No such file' --graph nosuch.json
expect 'chain.json has transfer times' --graph chain.json --bandwidth 1e9
expect 'needs cost model max-load, not pipedream' --graph chain.json --cost-model pipedream
status=4
expect '100 bytes per device; 120 bytes would be enough' --graph chain.json --devices 1
expect 'bytes per device; [0-9]* bytes would be enough' --graph "$SOURCE_DIR/tests/fuzz/corpus/planner/piper.json" --memory 1
status=2
expect "cost model 'alpa': expected max-load" --graph chain.json --cost-model alpa
expect 'graph.txt gives no number of devices; give --devices' --graph graph.txt
expect 'graph.txt gives no bandwidth; give --bandwidth' --graph graph.txt --devices 2
expect 'supports no memory limit' --graph graph.txt --devices 2 --bandwidth 1e9 --memory 1e9
sed 's/forward_compute_time=3.0/forward_compute_time=-3.0/' graph.txt >negative.txt
expect "negative.txt:2: forward_compute_time: '-3.0': expected a number" --graph negative.txt --devices 2 --bandwidth 1e9
expect 'from 1 to 4096' --graph chain.json --devices 0
expect 'from 1 to 1e+18' --graph graph.txt --devices 2 --bandwidth 0
expect "bytes per second, such as 25GB/s, from 1 .*found '1GB'" --graph graph.txt --devices 2 --bandwidth 1GB
expect "bytes, such as 8GiB, from 1 .*found 'lots'" --graph chain.json --memory lots
expect 'bandwidth between machines; give --between' --graph graph.txt --devices 2 --bandwidth 1e9 --machines 2
expect "are for PipeDream workloads, not for" --graph chain.json --machines 2
expect 'leave out --devices, --memory and --machines' --graph graph.txt --devices 2 --cluster '1x2 h100'
expect 'has no links' --graph graph.txt --cluster '1x1 h100 + 1x1 a100-80'
expect 'leave out --cluster' --graph "$SOURCE_DIR/tests/fuzz/corpus/planner/piper.json" --cluster '1x2 h100'
expect 'h1000' --graph chain.json --cluster '1x2 h1000'
expect 'chain.json: stages: is missing' --graph graph.txt --devices 2 --bandwidth 1e9 --evaluate chain.json
printf '{"maxFPGAs": 2, ' >cut.json
expect 'cut.json:1:[0-9]*: not JSON' --graph cut.json
truncate -s 100M huge.json
expect 'huge.json: the file is larger than the limit of 67108864 bytes' --graph huge.json
awk 'BEGIN { for (i = 0; i < 1e6; i++) print "node" i " -- op" }' >many.txt
expect 'many.txt:65536: more than 65535 nodes' --graph many.txt
"$PENSTOCK" plan --graph chain.json >/dev/full 2>err && fail "a full disk is not seen"
exit $bad
