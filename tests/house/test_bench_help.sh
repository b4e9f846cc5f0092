#!/bin/sh
# test: label=full timeout=240
# Every measuring program says what it measures (--help) and, in one line, what it needs and does not find.
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
# shellcheck source=tests/script.sh
. "$(dirname "$0")/../script.sh"
export PYTHONDONTWRITEBYTECODE=1 PENSTOCK="$folder/none"
echo 'raise ImportError("made up")' >torch.py
export PYTHONPATH="$folder"
n=0
for program in $(grep -l __main__ "$SOURCE_DIR"/bench/*.py); do
    name=$(basename "$program")
    n=$((n + 1))
    python3 "$program" --help >text 2>err </dev/null || fail "$name --help: status $?: $(cat err)"
    grep -q '^usage: ' text && [ "$(wc -l <text)" -gt 5 ] || fail "$name --help: $(cat text)"
    [ "$name" != bigram.py ] || continue # reads files
    rc=0
    timeout 20 python3 "$program" >text 2>err </dev/null || rc=$?
    [ $rc = 1 ] || fail "$name without anything: status $rc: $(cat text err)"
    case $name in
    peer_llmc.py) needs='needs a checkout of github.com/karpathy/llm.c' ;;
    table.py) needs='does not run: ./dev build first' ;;
    peer_ucx.py) needs="needs $folder/none: ./dev build" ;;
    peer_*) needs='needs PyTorch: pip install torch' ;;
    *) needs="needs $folder/none: ./dev build" ;;
    esac
    grep -q "$needs" err || fail "$name does not say '$needs': $(cat err)"
    ! grep -q Traceback err || fail "$name: $(cat err)"
done
[ $n -gt 15 ] || fail "only $n programs"
sh "$SOURCE_DIR/bench/bundle.sh" --help | grep -q 'bench/bundle.sh \[--vendor\] DIR' || fail "bundle.sh --help"
rc=0
sh "$SOURCE_DIR/bench/bundle.sh" 2>err >&2 || rc=$?
[ $rc = 2 ] && grep -q '^usage: ' err || fail "bundle.sh without a folder: status $rc: $(cat err)"
exit $bad
