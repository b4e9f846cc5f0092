#!/bin/sh
# test: label=quick timeout=60
# report.html: written by a run, written again elsewhere, of a run that was cut off, and refused where there is none.
. "$(dirname "$0")/../script.sh"

yes "all work and no play makes jack a dull boy" | head -40 >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 10}
data: {kind: text, paths: [text.txt]}
train: {steps: 6, batch: 6, micro_batch: 2, warmup: 0}
eval: {every: 3, sets: {same: text.txt}}
END
"$PENSTOCK" train run.yaml -n 2 >out 2>err || fail "train: $(cat err)"
grep -q '^report  *runs/run/report.html$' out || fail "the report is not named"
grep -q '^memory  *rank [01]: arena [0-9.]* MiB as predicted, [0-9.]* MiB of it written; peak resident memory of the process, .* [0-9.]* MiB' out ||
    fail "the memory is not told: $(cat out)"
# bytes KEY RANK: of the last step
bytes() { sed -n "s/.*\"$1\": *\[\([0-9]*\), *\([0-9]*\)\].*/\\$(($2 + 1))/p" runs/run/metrics.jsonl | tail -n 1; }
for r in 0 1; do
    [ "$(bytes peak_bytes $r)" -le "$(bytes predicted_peak_bytes $r)" ] &&
        [ "$(bytes resident_bytes $r)" -gt "$(bytes predicted_peak_bytes $r)" ] &&
        [ "$(bytes most_resident_bytes $r)" -gt "$(bytes resident_bytes $r)" ] ||
        fail "memory of rank $r: $(tail -n 2 runs/run/metrics.jsonl)"
done
page=runs/run/report.html
[ -s $page ] || fail "no report"
# holds FILE PATTERN...
holds() {
    file=$1
    shift
    for pattern; do grep -q -e "$pattern" "$file" || fail "$file: no '$pattern'"; done
}
holds $page 'Evaluation sets' 'same [0-9.]* nats per token, at step 6' 'Loss' 'validation' 'Predicted' 'rank 1' \
    'written: up to the highest byte' 'step-00000006' 'class="state good">done'
grep -o 'https*://[^"< ]*' $page && fail "the page refers to others"

"$PENSTOCK" report runs/run -o other.html >out 2>err || fail "report -o: $(cat err)"
cmp -s other.html $page || fail "written again it differs"

# What a run leaves behind that was killed: no last line, half a line, no timeline.
mkdir cut
head -n 4 runs/run/metrics.jsonl >cut/metrics.jsonl
printf '{"step":5,"loss":3.' >>cut/metrics.jsonl
echo 'ranks: [' >cut/plan.yaml
"$PENSTOCK" report cut >out 2>err || fail "report of a cut run: $(cat err)"
holds cut/report.html 'killed or failed' '1 line of metrics.jsonl could not be read' 'No step was traced'

refuses() { # STATUS PATTERN ARGUMENT...
    status=$1 pattern=$2 rc=0
    shift 2
    "$PENSTOCK" "$@" >out 2>err || rc=$?
    [ $rc = "$status" ] && grep -q -e "$pattern" err || fail "$*: status $rc: $(cat err)"
}
refuses 2 'expected the folder of a run' report nowhere
refuses 2 'too few operands' report
refuses 2 'nowhere/x.html' report runs/run -o nowhere/x.html
# Through a link: what is no file is written to, never replaced.
[ -c /dev/full ] && ln -s /dev/full full && refuses 4 "No space" report runs/run -o full
[ ! -c /dev/full ] || [ -h full ] || fail "a device was replaced"
exit $bad
