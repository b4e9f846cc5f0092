#!/bin/sh
# test: label=quick timeout=60
# The rooms of the house: every #include "FOLDER/..." and every symbol that a room uses comes from a room that its row in
# cmake/rooms.cmake names, or that those may use. Commands use the public headers only. Every room has a README.md, which
# is not long, and no more than 60 sources of its own. TREE=DIR checks the includes of another tree (the test uses it to
# see that it can fail).
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
rooms=$source_dir/cmake/rooms.cmake

# "ROOM MAY USE THESE", one line per room, rooms without src/, from the bottom up; libraries left out.
table() {
    awk '/^pst_room\(/ {
        sub(/^pst_room\(/, "")
        sub(/\).*/, "")
        sub(/^src\//, "")
        room = $1
        all = " " room " penstock "
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^(PkgConfig::|Threads::|\$|m$)/) continue
            if (!($i in may)) {
                printf "%s may use %s, which is not above it in the table\n", room, $i >"/dev/stderr"
                exit 1
            }
            n = split(may[$i], more, " ")
            for (k = 1; k <= n; k++) if (index(all, " " more[k] " ") == 0) all = all more[k] " "
        }
        may[room] = all
        print room, all
    }' "$rooms"
}

includes() { # TREE
    table >"$work/table"
    (cd "$1" && find . -path ./tests -prune -o -path ./build -prune -o -path ./bench -prune -o -path ./examples -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print) | sed 's,^\./,,' |
        sort | (cd "$1" && xargs awk -v table="$work/table" '
    BEGIN {
        while ((getline line < table) > 0) {
            room = line
            sub(/ .*/, "", room)
            sub(/^[^ ]* /, "", line)
            may[room] = line
        }
        may["penstock"] = " penstock "
        may["cli"] = " penstock cli "
        may["kernels/cuda"] = may["kernels"] " kernels/cuda "
    }
    FNR == 1 {
        room = FILENAME
        sub(/^(src|include)\//, "", room)
        sub(/\/[^\/]*$/, "", room)
        files++
        if (!(room in may)) complain("is no room of the table")
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        path = $0
        sub(/^[^"]*"/, "", path)
        sub(/".*/, "", path)
        target = path
        if (target ~ /^\.\./) complain("goes up: \"" path "\"")
        else if (!sub(/\/[^\/]*$/, "", target)) {      # beside the file: only within src/cli
            if (room != "cli") complain("names no folder: \"" path "\"")
        } else if (index(" " may[room] " ", " " target " ") == 0) complain("may not include \"" path "\"")
    }
    function complain(what) { printf "%s:%d: %s %s\n", FILENAME, FNR, room, what; bad++ }
    END { printf "%d files, %d wrong includes\n", files, bad; exit bad > 0 || files == 0 }')
}

# A function that is declared in one room and defined in another one goes past the includes.
symbols() { # BUILD
    table >"$work/table"
    while read -r room may; do
        archive=$1/libpst_$(echo "$room" | tr / _).a
        [ -e "$archive" ] || {
            echo "no $archive"
            exit 1
        }
        nm "$archive" 2>/dev/null | awk -v room="$room" '
            NF == 3 && $2 ~ /^[TDBR]$/ && $3 ~ /^pst_/ { print room, "defines", $3 }
            NF == 2 && $1 == "U" && $2 ~ /^pst_/ { print room, "uses", $2 }'
    done <"$work/table" | sort -u >"$work/symbols"
    awk -v table="$work/table" '
        BEGIN {
            while ((getline line < table) > 0) {
                room = line
                sub(/ .*/, "", room)
                may[room] = line
            }
        }
        FNR == NR { if ($2 == "defines") home[$3] = $1; next }
        $2 == "uses" && $3 in home {
            n++
            if (index(may[$1] " ", " " home[$3] " ")) next
            printf "%s uses %s of %s, which its row does not name\n", $1, $3, home[$3]
            bad++
        }
        END { printf "%d uses of other rooms, %d wrong\n", n, bad; exit bad > 0 || n == 0 }' "$work/symbols" "$work/symbols"
}

row_of() { # ROOM -> "room, room"
    sed -n "s,^pst_room($1 \\(.*\\))\$,\\1,p" "$rooms" | tr ' ' '\n' | grep -vE '::|\$|^m$' | paste -sd, | sed 's/,/, /g'
}

rooms_are_described() {
    bad=0
    for room in $(sed -n 's/^pst_room(\([a-z_/]*\).*/\1/p' "$rooms") kernels/cuda src/cli; do
        n=$(find "$source_dir/$room" -maxdepth 1 \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | wc -l)
        lines=$(wc -l <"$source_dir/$room/README.md" 2>/dev/null || echo 0)
        [ "$n" -le 60 ] || {
            echo "$room: $n sources; 60 are the most"
            bad=1
        }
        [ "$lines" -gt 2 ] && [ "$lines" -le 20 ] && grep -q '^Read first: ' "$source_dir/$room/README.md" || {
            echo "$room/README.md: $lines lines; 3 to 20 say what the room is for, what to read first, what it may use"
            bad=1
        }
        grep -q "^pst_room($room[ )]" "$rooms" || continue
        row=$(row_of "$room")
        tr '\n' ' ' <"$source_dir/$room/README.md" | grep -q "May use: ${row:-nothing of the house}[,.]" || {
            echo "$room/README.md: it may use ${row:-nothing of the house}, says cmake/rooms.cmake"
            bad=1
        }
    done
    return $bad
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${TREE:-}" ]; then
    includes "$TREE"
    exit
fi
includes "$source_dir"
symbols "$(dirname "${PENSTOCK:?names the program that was built}")"
rooms_are_described

# A cheat in each direction must be seen.
tree=$work/tree
mkdir -p "$tree/comm/world" "$tree/src/base" "$tree/src/cli" "$tree/src/rank" "$tree/pipeline/schedule"
for cheat in 'comm/world/a.c kernels/kernel.h' 'src/base/a.h graph/graph.h' 'src/cli/a.c rank/rank.h' \
    'comm/world/a.c ../src/base/x.h' 'src/rank/a.c run/train.h' 'pipeline/schedule/a.c pipeline/compile/instr.h'; do
    # shellcheck disable=SC2086
    set -- $cheat
    printf '#include "%s"\n' "$2" >"$tree/$1"
    if TREE=$tree sh "$0" >/dev/null; then
        echo "not seen: $cheat"
        exit 1
    fi
    rm "$tree/$1"
done
