# shellcheck shell=sh disable=SC2034 # of those that source it
# Tests that run PyTorch: `need_torch .MODULE` leaves in $python the Python that has it, or skips the test.
need_torch() {
    python=${PST_TORCH_PYTHON:-python3}
    "$python" -c "import torch$1" 2>/dev/null && return
    why="pip install torch (3 GB to download, the build for CPUs alone less), or PST_TORCH_PYTHON=a Python that has it"
    echo "skipped: needs PyTorch: $why"
    exit 77
}

# our_schedules FOLDER: every schedule that is the same on all machines, as NAME-RANKS-MICROBATCHES.csv. `solved` is not:
# the search for it ends by the clock.
our_schedules() {
    for p in 2 4; do
        for m in 8 16; do
            "$PENSTOCK" simulate --schedule all -p $p -m $m | awk '/^$/ { exit } NR > 1 && $1 != "solved" { print $1 }' >"$1/names"
            while read -r schedule; do
                "$PENSTOCK" simulate --schedule "$schedule" -p $p -m $m --csv "$1/$schedule-$p-$m.csv" >/dev/null || return
            done <"$1/names"
        done
    done
    rm "$1/names"
}

# sums FOLDER FILE...: checksum, bytes and name of each
sums() { (cd "$1" && shift && cksum "$@"); }
