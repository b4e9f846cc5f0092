#!/bin/sh
# test: label=full timeout=200
# Reports in headless Chromium (skipped where it is not there): the script runs through, nothing is asked for, nothing
# is wider than the window, the picture is not blank.
set -u
for name in chromium chromium-browser google-chrome; do command -v $name >/dev/null 2>&1 && break; name=; done
[ -n "$name" ] && command -v python3 >/dev/null 2>&1 || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
browse() { # WIDTH ARGUMENT...
    width=$1
    shift
    timeout 60 $name --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$folder/profile" \
        --no-first-run --window-size="$width",1400 --enable-logging=stderr "$@" 2>err
}
echo '<p>x</p>' >try.html
browse 500 --dump-dom "file://$folder/try.html" >dom && grep -q '<p>x</p>' dom || exit 77

yes "all work and no play makes jack a dull boy" | head -40 >text.txt
cat >run.yaml <<END
name: run
model: {kind: gpt, layers: 4, heads: 2, channels: 24, context: 10}
data: {kind: text, paths: [text.txt]}
train: {steps: 12, batch: 12, micro_batch: 2, warmup: 0, validate_every: 3}
END
"$PENSTOCK" train run.yaml -q -n 4 schedule=1f1b-early || fail "train"
"$PENSTOCK" train run.yaml -q -n 2 device=timed name=study || fail "study"
"$PENSTOCK" train run.yaml -q -n 1 name=one train.steps=1 data.validation=0 train.validate_every=0 || fail "one step"
mkdir runs/cut runs/many runs/still
# the same, with a timeline that does not depend on the machine's load
cp runs/run/*.yaml runs/run/metrics.jsonl runs/still
"$PENSTOCK" simulate --schedule 1f1b-early --stages 4 --micro-batches 4 --trace runs/still/trace.json >/dev/null ||
    fail "simulate"
head -n 3 runs/run/metrics.jsonl >runs/cut/metrics.jsonl
awk 'BEGIN {
    fixed = "\"lr\":1e-4,\"predicted_step_ms\":20,\"bubble\":0.1,\"tokens_per_s\":27000"
    for (i = 1; i <= 20000; i++)
        printf "{\"step\":%d,\"loss\":%.4f,\"step_ms\":%d,%s}\n", i, 5 - i / 9000 + i % 7 / 10,
            i % 5000 ? 20 + i % 3 : 900, fixed }' \
    >runs/many/metrics.jsonl
for run in run still study one cut many; do
    "$PENSTOCK" report runs/$run >/dev/null || fail "report $run"
    for width in 1280 500; do
        case $run$width in still* | many* | *1280) ;; *) continue ;; esac
        # The page's own last word: whether it is wider than the window, and what the timeline's script has drawn.
        sed 's#</body>#<script>document.title = [document.documentElement.scrollWidth <= innerWidth ? "fits" : "too wide", document.querySelectorAll(".numbers span").length, document.querySelectorAll(".cursor").length].join(" ")</script></body>#' \
            runs/$run/report.html >page.html
        browse $width --dump-dom "file://$folder/page.html" >dom || fail "$run: the browser failed: $(tail -3 err)"
        grep -E 'CONSOLE|Refused to|violates' err && fail "$run: the browser complains"
        grep -q '</html>' dom || fail "$run: no page"
        grep -q '<title>fits' dom || fail "$run at $width: $(grep -o '<title>[^<]*' dom)"
        [ $run != still ] || grep -q '<title>fits [1-9][0-9]* 7<' dom ||
            fail "$run at $width: $(grep -o '<title>[^<]*' dom)"
    done
    browse 1280 --screenshot="$folder/page.png" "file://$folder/runs/$run/report.html" >/dev/null ||
        fail "$run: no picture"
    python3 - page.png <<'END' || fail "$run: the picture is blank"
import sys, zlib
data, at, pixels = open(sys.argv[1], "rb").read(), 8, b""
while at < len(data):
    size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
    if kind == b"IDAT":
        pixels += data[at + 8:at + 8 + size]
    at += 12 + size
sys.exit(len(set(zlib.decompress(pixels))) < 32)
END
done
exit $bad
