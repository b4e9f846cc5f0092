#!/bin/sh
# test: label=quick timeout=60
# Links in a run's folder: checkpoints on another disk are gone on with there; no file that the program names itself is
# written through a link; a file that the user names is written where the link leads.
. "$(dirname "$0")/../script.sh"

yes "all work and no play makes jack a dull boy" | head -40 >text.txt
cat >run.yaml <<END
name: run
model: {kind: mlp, layers: 1, channels: 8, context: 8}
data: {kind: text, paths: ["$folder/text.txt"]}
train: {steps: 2, batch: 4, micro_batch: 2, warmup: 0, validate_every: 1}
parallel: {threads: 1}
checkpoint: {every: 2}
END
"$PENSTOCK" train run.yaml -q || exit 1

mkdir disk
mv runs/run/checkpoints disk/of_run
ln -s "$PWD/disk/of_run" runs/run/checkpoints
ln -s runs/run to_run
ln -s "$PWD/runs/run/checkpoints" to_checkpoints
steps=2

newest() { find disk/of_run -name 'step-*' -printf '%f\n' | sort | tail -n 1; }
oldest() { find disk/of_run -name 'step-*' -printf '%f\n' | sort | head -n 1; }

# goes_on FOLDER PATH: a run resumed from PATH, seen from FOLDER, does one more step in its own folder
goes_on() {
    steps=$((steps + 1))
    (cd "$1" && "$PENSTOCK" train "$folder/run.yaml" --resume "$2" --runs "$folder/new" -q steps=$steps \
        log.trace=$steps) >out 2>&1 ||
        fail "in $1 --resume $2: $(cat out)"
    [ ! -e new ] || fail "in $1 --resume $2: a new folder: $(ls new)"
    rm -rf new
    [ -e "$(printf 'disk/of_run/step-%08d/index.json' $steps)" ] || fail "in $1 --resume $2: no checkpoint: $(cat out)"
}
goes_on . runs/run
goes_on . runs/run//checkpoints/
goes_on . "$PWD/runs/run/checkpoints/$(newest)"
goes_on . to_run
goes_on . to_checkpoints
goes_on . "to_checkpoints/$(newest)/"
goes_on runs/run .
goes_on runs/run checkpoints
goes_on runs/run "checkpoints/$(newest)"
[ -h runs/run/checkpoints ] && [ -h disk/of_run/best ] || fail "links that were followed are gone"
# a single checkpoint elsewhere, and `best`, where that is the newest
last=$(newest)
mv "disk/of_run/$last" disk/one && ln -s ../one "disk/of_run/$last"
goes_on . runs/run
ln -sfn "$(newest)" disk/of_run/best
goes_on . runs/run/checkpoints/best
# what is not the newest, or lies in no run's folder, leads elsewhere
"$PENSTOCK" train run.yaml --resume "runs/run/checkpoints/$(oldest)" -q steps=20 || fail "an older one"
[ -d runs/run-2 ] || fail "an older checkpoint was gone on with in the run's own folder"
"$PENSTOCK" train run.yaml --resume disk/of_run -q steps=20 && [ -d runs/run-3 ] || fail "checkpoints of no run: $(ls runs)"

rm -r runs/run-2/checkpoints && ln -s unmounted runs/run-2/checkpoints
"$PENSTOCK" train --resume runs/run-2 2>err && fail "a run whose checkpoints are not there was gone on with"
grep -q 'runs/run-2/checkpoints: No such file' err || fail "a link that leads nowhere: $(cat err)"

# The program's own names
names="run.yaml plan.yaml metrics.jsonl trace.json timeline.svg report.html"
mkdir else
for name in $names; do
    mv runs/run/$name else/$name
    ln -s "$PWD/else/$name" runs/run/$name
    echo "a file of somebody" >else/$name.new
    ln -s "$PWD/else/$name.new" runs/run/$name.new
done
echo "a file of somebody" >else/report.html
mkdir else/step
ln -s "$PWD/else/step" "$(printf 'runs/run/checkpoints/.tmp-step-%08d' $((steps + 1)))"
cp -r else before
goes_on . runs/run
diff -r before else || fail "something was written through a link"
for name in $names; do
    [ -f runs/run/$name ] && [ ! -h runs/run/$name ] || fail "$name is no file: $(ls -l runs/run/$name)"
    [ ! -e runs/run/$name.new ] && [ ! -h runs/run/$name.new ] || fail "$name.new is left"
done
grep -q "\"step\":$steps" runs/run/metrics.jsonl && grep -q '"step":1,' runs/run/metrics.jsonl || fail "metrics are cut"
grep -q '^<!DOCTYPE html>' runs/run/report.html || fail "no report"
ln -sf "$PWD/else/report.html" runs/run/report.html
"$PENSTOCK" report runs/run >out 2>&1 && [ ! -h runs/run/report.html ] || fail "penstock report: $(cat out)"
diff -r before else || fail "penstock report wrote through a link"

# Names that the user gives
for name in report plan trace; do
    ln -s else/named.$name $name.link # leads to nothing yet
    echo "old" >else/was.$name && ln -s else/was.$name $name.was
done
for way in link was; do
    "$PENSTOCK" report runs/run -o report.$way >out 2>&1 || fail "report -o report.$way: $(cat out)"
    "$PENSTOCK" plan run.yaml -n 1 -o plan.$way >out 2>&1 || fail "plan -o plan.$way: $(cat out)"
    "$PENSTOCK" simulate runs/run/plan.yaml --trace trace.$way >out 2>&1 || fail "simulate --trace: $(cat out)"
done
for name in report plan trace; do
    [ -h $name.link ] && [ -h $name.was ] || fail "$name: the user's link is gone"
    [ -s else/named.$name ] && [ "$(wc -c <else/was.$name)" -gt 100 ] || fail "$name: not written where the link leads"
    [ ! -e else/was.$name.new ] || fail "$name: something is left"
done
exit $bad
