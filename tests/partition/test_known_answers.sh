#!/bin/sh
# test: label=quick timeout=120
# The published workloads of other planners and their optima, where they are beside the checkout.
. "$(dirname "$0")/../script.sh"

data=$SOURCE_DIR/../shared/data/planner
[ -d "$data/dnn-partitioning" ] || exit 77

# exact FILE OBJECTIVE OPTION...: the plan is proven and has this objective, to the digits given
exact() {
    file=$1 wanted=$2
    shift 2
    "$PENSTOCK" plan --graph "$data/$file" --json "$@" >out 2>err || { fail "$file: $(cat err)"; return; }
    grep -q '"proven":true' out || fail "$file: not proven"
    found=$(sed 's/^{"objective":\([^,]*\),.*/\1/' out)
    awk -v a="$found" -v b="$wanted" 'BEGIN { d = a - b; exit !(d * d < 2.6e-9) }' || fail "$file: $found, expected $wanted"
}
dnn=dnn-partitioning/throughput-inputs
exact $dnn/LayerGraphs/bert24_inference.json 17.7899
exact $dnn/LayerGraphs/bert24_training.json 41.7458
exact $dnn/LayerGraphs/resnet50_inference.json 33.7747
exact $dnn/LayerGraphs/resnet50_training.json 78.6318
exact $dnn/OperatorGraphs/bert_l-3_inference.json 27.9186
exact $dnn/OperatorGraphs/bert_l-3_training.json 65.3031
exit $bad
