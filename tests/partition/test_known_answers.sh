#!/bin/sh
# test: label=quick timeout=120
# The published workloads of other planners and their optima. PST_PLANNER_DATA names a folder that has
# dnn-partitioning/throughput-inputs, pipedream/profiles and piper/bert32a100.json, as the repositories of msr-fiddle do.
# Workloads that are made up need no data: test_chains.sh, test_downset_many.c, test_tensor.c.
data=${PST_PLANNER_DATA:-$SOURCE_DIR/../shared/data/planner}
[ -d "$data/dnn-partitioning" ] || {
    echo "skipped: needs workloads of github.com/msr-fiddle/dnn-partitioning, pipedream and piper; PST_PLANNER_DATA=FOLDER"
    exit 77
}
. "$(dirname "$0")/../script.sh"

# exact FILE OBJECTIVE OPTION...: the plan is proven and has this objective, to the digits given
exact() {
    file=$1 wanted=$2
    shift 2
    "$PENSTOCK" plan --graph "$data/$file" --json "$@" >out 2>err || { fail "$file: $(cat err)"; return; }
    grep -q '"proven":true' out || fail "$file: not proven"
    found=$(sed 's/^{"objective":\([^,]*\),.*/\1/' out)
    awk -v a="$found" -v b="$wanted" 'BEGIN { d = a / b - 1; exit !(d * d < 1e-11) }' ||
        fail "$file: $found, expected $wanted"
}
dnn=dnn-partitioning/throughput-inputs
exact $dnn/LayerGraphs/bert24_inference.json 17.7899
exact $dnn/LayerGraphs/bert24_training.json 41.7458
exact $dnn/LayerGraphs/resnet50_inference.json 33.7747
exact $dnn/LayerGraphs/resnet50_training.json 78.6318
exact $dnn/OperatorGraphs/bert_l-3_inference.json 27.9186
exact $dnn/OperatorGraphs/bert_l-3_training.json 65.3031
pipedream() { # FILE DEVICES OBJECTIVE: the reference's plan is the best one in all of these
    exact "pipedream/profiles/$1.graph.txt" "$3" --devices "$2" --bandwidth 1e10
}
pipedream alexnet 4 0.022186
pipedream vgg16 4 0.1701790624
pipedream resnet18 4 0.065918
pipedream densenet121 4 0.0819839208
pipedream squeezenet1_0 4 0.0714772843
pipedream gnmt 4 0.025868
pipedream vgg16 16 0.0432270743
# Two levels and straight pipelines: activations travel in these rows of the reference
levels() { # FILE OBJECTIVE OPTION...
    file=$1 wanted=$2
    shift 2
    exact "pipedream/profiles/$file.graph.txt" "$wanted" --devices 4 --bandwidth 1e10 "$@"
}
levels vgg16 0.0671339969 --machines 4 --between 1.25e9 --compression 1
levels alexnet 0.0150994944 --machines 4 --between 1.25e9 --compression 1
levels vgg16 0.23559 --straight --compression 1
levels gnmt 0.025868 --compression 1
levels vgg16 0.0441210743 --machines 4 --between 1.25e9
levels alexnet 0.0060111784 --machines 4 --between 1.25e9
levels vgg16 0.21645 --straight
piper() { # DEVICES BYTES OBJECTIVE: likewise, with 25 GiB/s
    exact piper/bert32a100.json "$3" --devices "$1" --memory "$2" --bandwidth 26843545600
}
piper 8 8589934592 0.16585575
piper 32 8589934592 0.0415154504
piper 64 8589934592 0.0202005503
piper 128 8589934592 0.0101208803
piper 512 8589934592 0.00256112785
piper 1024 8589934592 0.00130317952
piper 2048 8589934592 0.000703591184
piper 32 2147483648 0.0665495
piper 64 2147483648 0.0320300812
piper 128 2147483648 0.0151464079
piper 128 1073741824 0.03887175
piper 8 85899345920 0.122007269
piper 128 85899345920 0.00805324292
# judged WANTED GRAPH PLAN OPTION...: somebody's plan under the reference's own model
judged() {
    wanted=$1 graph=$2 plan=$3
    shift 3
    "$PENSTOCK" plan --graph "$data/$graph" --evaluate "$plan" --json "$@" >out 2>err || { fail "$plan: $(cat err)"; return; }
    found=$(sed 's/^{"objective":\([^,]*\),.*/\1/' out)
    awk -v a="$found" -v b="$wanted" 'BEGIN { d = a / b - 1; exit !(d * d < 1e-11) }' || fail "$plan: $found, expected $wanted"
}
experts=$data/dnn-partitioning/human-experts
judged 20.084 $dnn/LayerGraphs/bert24_inference.json "$experts/bert24_inference_expert.json"
judged 49.4049 $dnn/LayerGraphs/bert24_training.json "$experts/bert24_inference_expert.json"
judged 43.9183 $dnn/LayerGraphs/resnet50_inference.json "$experts/resnet50_inference_expert.json"
judged 65.3031 $dnn/OperatorGraphs/bert_l-3_training.json \
    "$data/dnn-partitioning/answers_computed/OperatorGraphs_bert_l-3_training.split.json"
again() { # OBJECTIVE GRAPH OPTION...: what it has found itself
    wanted=$1 graph=$2
    shift 2
    "$PENSTOCK" plan --graph "$data/$graph" --json "$@" >plan.json 2>err || { fail "$graph: $(cat err)"; return; }
    judged "$wanted" "$graph" plan.json "$@"
}
again 0.0671339969 pipedream/profiles/vgg16.graph.txt --devices 4 --bandwidth 1e10 --machines 4 --between 1.25e9 --compression 1
again 0.0819839208 pipedream/profiles/densenet121.graph.txt --devices 4 --bandwidth 1e10
again 0.00130317952 piper/bert32a100.json --devices 1024 --memory 8589934592 --bandwidth 26843545600
"$PENSTOCK" plan --graph "$data/pipedream/profiles/vgg16.graph.txt" --devices 2 --bandwidth 1e10 \
    --evaluate plan.json >out 2>err && fail "a plan of another graph"
"$PENSTOCK" plan --graph "$data/piper/bert32a100.json" --devices 64 --memory 1073741824 >out 2>err &&
    fail "a plan in 1 GiB"
grep -q 'fits in 1073741824 bytes (1 GiB) per device; [0-9]* bytes ([0-9.]* GiB) would be enough$' err || fail "$(cat err)"
exit $bad
