#!/bin/sh
# test: label=quick timeout=20
# Dependencies point down: every #include "FOLDER/..." of the project against the table of docs/ARCHITECTURE.md.
# Commands use the public headers only. TREE=DIR checks another tree (the test uses it to see that it can fail).
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}

check() { # TREE
    cd "$1"
    find include src comm kernels models partition pipeline -name '*.[ch]' -o -name '*.cu' 2>/dev/null | sort | xargs awk '
    BEGIN {
        may["penstock"]  = "penstock"
        may["base"]      = "penstock base"
        may["config"]    = may["base"] " config"
        may["graph"]     = may["base"] " graph"
        may["data"]      = may["base"] " data"
        may["models"]    = may["graph"] " models"
        may["kernels"]   = may["graph"] " kernels"
        may["comm"]      = may["base"] " comm"
        may["pipeline"]  = may["graph"] " config pipeline"
        may["partition"] = may["pipeline"] " partition"
        may["report"]    = may["pipeline"] " report"
        may["engine"]    = may["partition"] " models kernels comm data config report engine"
        may["cli"]       = "penstock cli"
    }
    FNR == 1 {
        folder = FILENAME
        sub(/^(src|include)\//, "", folder)
        sub(/\/.*/, "", folder)
        files++
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        path = $0
        sub(/^[^"]*"/, "", path)
        sub(/".*/, "", path)
        target = path
        if (target ~ /^\.\./) complain("goes up: \"" path "\"")
        else {
            if (!sub(/\/.*/, "", target)) {          # beside the file: only within src/cli
                if (folder == "cli") next
                complain("names no folder: \"" path "\"")
            } else if (!(folder in may)) complain("is in no folder of the house")
            else if (index(" " may[folder] " ", " " target " ") == 0) complain("may not include \"" path "\"")
        }
    }
    function complain(what) { printf "%s:%d: %s %s\n", FILENAME, FNR, folder, what; bad++ }
    END { printf "%d files, %d wrong includes\n", files, bad; exit bad > 0 || files == 0 }'
}

if [ -n "${TREE:-}" ]; then
    check "$TREE"
    exit
fi
check "$source_dir"

# A cheat in each direction must be seen.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/comm" "$tree/src/base" "$tree/src/cli"
for cheat in 'comm/a.c kernels/kernel.h' 'src/base/a.h graph/graph.h' 'src/cli/a.c engine/rank.h' \
    'comm/a.c ../src/base/x.h'; do
    set -- $cheat
    printf '#include "%s"\n' "$2" >"$tree/$1"
    if TREE=$tree sh "$0" >/dev/null; then
        echo "not seen: $cheat"
        exit 1
    fi
    rm "$tree/$1"
done
