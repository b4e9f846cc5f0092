#!/bin/sh
# test: label=full timeout=200
# Reports of plans in headless Chromium (skipped where it is not there): every section can be seen, nothing is asked for or
# wider than the window, light and dark, with and without script; the largest are as readable as small ones.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
. "$SOURCE_DIR/tests/report/browser.sh"

plan() { # NAME MODEL BATCH PARALLEL RANKS
    mkdir "$1"
    cat >"$1/run.yaml" <<END
name: $1
model: {kind: gpt, heads: 2, channels: 24, context: 12, vocabulary: 256, $2}
data: {kind: text, paths: [text.txt]}
train: {batch: $3, micro_batch: 1}
parallel: {$4}
END
    "$PENSTOCK" inspect "$1/run.yaml" -n "$5" >"$1/plan.yaml" && "$PENSTOCK" simulate "$1/plan.yaml" --report "$1.html" >/dev/null ||
        fail "$1: no report"
}
echo "all work and no play" >text.txt
plan one "layers: 2" 4 "pipeline: 1" 1
plan small "layers: 6" 16 'pipeline: 2, data: 2, tensor: 2, recompute: selective, cluster: "1x8 h100"' 8
plan large "layers: 96" 512 "pipeline: 16, schedule: interleaved, chunks: 4" 16
sed /parallel/d one/run.yaml >rows.yaml
"$PENSTOCK" plan rows.yaml -n 4 --report rows.html >/dev/null || fail "plan"

# How many sections can be seen, how many pictures of memory, and numbers in the boxes of the timeline.
script='[...document.querySelectorAll("section")].filter(function (s) { return s.getBoundingClientRect().height > 40; }).length, [...document.querySelectorAll(".stack svg")].filter(function (s) { return s.getBoundingClientRect().width > 60; }).length, document.querySelectorAll(".numbers span").length'
expect() { # NAME WIDTH TITLE
    last_word "$1.html" "$2" "$script"
    grep -q "<title>fits $3<" dom || fail "$1 at $2: $(grep -o '<title>[^<]*' dom), expected $3"
}
expect one 1280 '6 1 8'
expect small 1280 '7 8 128'
expect small 420 '7 8 [0-9]*'
expect large 1280 '6 16 0'
expect large 420 '6 16 0'
expect rows 1280 '7 [1-4] [1-9][0-9]*'
expect rows 420 '7 [1-4] [0-9]*'
for page in one rows small large; do not_blank $page.html; done
not_blank small.html --blink-settings=preferredColorScheme=0
not_blank small.html --blink-settings=scriptEnabled=false
exit $bad
