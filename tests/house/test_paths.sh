#!/bin/sh
# test: label=quick
# Every source file that documents and comments name is there: `src/rank/rank.c`, or the end of its path, `rank/rank.c` or
# `rank.c`. Names with * stand for several, of which one at least is there; so do those with {.
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$source_dir"

check() { # FILE... -> names of files that are nowhere
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print | sed 's,^\./,,' >"$work/there"
    # A name is a word of letters, digits, _ and / that ends like a source file. Comments only, of sources.
    awk -v there="$work/there" '
        BEGIN {
            while ((getline path < there) > 0) {
                have[path] = 1
                while (sub(/^[^\/]*\//, "", path)) have[path] = 1
            }
        }
        FNR == 1 { inside = 0 }
        {
            line = FILENAME ~ /[.](c|h|cu|cuh)$/ ? comment($0) : $0
            line = line " "
            while (match(line, /[A-Za-z0-9_.\/*{},-]*[a-z0-9_*}]\.(c|h|cu|cuh)[^a-z0-9_]/)) {
                name = substr(line, RSTART, RLENGTH - 1)
                line = substr(line, RSTART + RLENGTH - 1)
                sub(/^[.,\/{}-]+/, "", name)
                if (name ~ /[{},]/ || name in have || name in other) continue
                if (name ~ /[*]/ && some(name)) continue
                printf "%s:%d: there is no %s\n", FILENAME, FNR, name
                bad++
            }
        }
        function some(name,    pattern, path) {
            pattern = name
            gsub(/[.]/, "[.]", pattern)
            gsub(/[*]/, "[^/]*", pattern)
            if (pattern in found) return found[pattern]
            found[pattern] = 0
            for (path in have)
                if (path ~ ("^" pattern "$")) return found[pattern] = 1
            return 0
        }
        function comment(text,    kept) {
            kept = ""
            while (text != "") {
                if (inside) {
                    n = index(text, "*/")
                    kept = kept (n ? substr(text, 1, n - 1) : text) " "
                    text = n ? substr(text, n + 2) : ""
                    if (n) inside = 0
                } else {
                    n = index(text, "/*")
                    text = n ? substr(text, n + 2) : ""
                    if (n) inside = 1
                }
            }
            return kept
        }
        BEGIN { # of other programs
            n = split("cudnn.h nccl.h tensorflow/core/lib/io/record_writer.h transformer.h a.b.c cmocka.h llm.c", list, " ")
            for (i = 1; i <= n; i++) other[list[i]] = 1
        }
        END { exit bad > 0 }' "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources() {
    find comm docs examples include kernels models partition pipeline src tests -type f \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.md' \)
    ls ./*.md
}
# shellcheck disable=SC2046
check $(sources | grep -v '^docs/history/\|^tests/data/')

# It can fail.
echo 'as in `src/rank/no_such_file.c`, and no_such_either.h, and no_such*.c, but not op_*.c, too' >"$work/a.md"
if check "$work/a.md" >"$work/said"; then exit 1; fi
[ "$(wc -l <"$work/said")" = 3 ]
