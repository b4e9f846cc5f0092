#!/bin/sh
# test: label=quick timeout=60
# Every #include "FOLDER/..." and every symbol that a component uses comes from a component that its row in
# cmake/components.cmake names, or that those may use. Commands use the public headers only. Every component has a README.md, which
# is not long, and no more than 60 sources of its own. TREE=DIR checks the includes of another tree (the test uses it to
# see that it can fail).
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
components=$source_dir/cmake/components.cmake

# "COMPONENT MAY USE THESE", one line per component, components without src/, from the bottom up; libraries left out.
table() {
    awk '/^pst_component\(/ {
        sub(/^pst_component\(/, "")
        sub(/\).*/, "")
        sub(/^src\//, "")
        component = $1
        all = " " component " penstock "
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^(PkgConfig::|Threads::|\$|m$)/) continue
            if (!($i in may)) {
                printf "%s may use %s, which is not above it in the table\n", component, $i >"/dev/stderr"
                exit 1
            }
            n = split(may[$i], more, " ")
            for (k = 1; k <= n; k++) if (index(all, " " more[k] " ") == 0) all = all more[k] " "
        }
        may[component] = all
        print component, all
    }' "$components"
}

includes() { # TREE
    table >"$work/table"
    (cd "$1" && find . -path ./tests -prune -o -path ./build -prune -o -path ./bench -prune -o -path ./examples -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print) | sed 's,^\./,,' |
        sort | (cd "$1" && xargs awk -v table="$work/table" '
    BEGIN {
        while ((getline line < table) > 0) {
            component = line
            sub(/ .*/, "", component)
            sub(/^[^ ]* /, "", line)
            may[component] = line
        }
        may["penstock"] = " penstock "
        may["cli"] = " penstock cli "
        may["kernels/cuda/nccl"] = may["kernels"] " kernels/cuda kernels/cuda/nccl "
        may["kernels/cuda"] = may["kernels"] " kernels/cuda "
        may["kernels/cuda/module.c"] = may["kernels/cuda/about.c"] = may["kernels/cuda/nccl"]
    }
    FNR == 1 {
        component = FILENAME
        sub(/^(src|include)\//, "", component)
        sub(/\/[^\/]*$/, "", component)
        files++
        if (!(component in may)) complain("is no component of the table")
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        path = $0
        sub(/^[^"]*"/, "", path)
        sub(/".*/, "", path)
        target = path
        if (target ~ /^\.\./) complain("goes up: \"" path "\"")
        else if (!sub(/\/[^\/]*$/, "", target)) {      # beside the file: only within src/cli
            if (component != "cli") complain("names no folder: \"" path "\"")
        } else if (index(" " may[FILENAME in may ? FILENAME : component] " ", " " target " ") == 0) complain("may not include \"" path "\"")
    }
    function complain(what) { printf "%s:%d: %s %s\n", FILENAME, FNR, component, what; bad++ }
    END { printf "%d files, %d wrong includes\n", files, bad; exit bad > 0 || files == 0 }')
}

# A function that is declared in one component and defined in another one goes past the includes.
symbols() { # BUILD
    table >"$work/table"
    while read -r component may; do
        archive=$1/libpst_$(echo "$component" | tr / _).a
        [ -e "$archive" ] || {
            echo "no $archive"
            exit 1
        }
        nm "$archive" 2>/dev/null | awk -v component="$component" '
            NF == 3 && $2 ~ /^[TDBR]$/ && $3 ~ /^pst_/ { print component, "defines", $3 }
            NF == 2 && $1 == "U" && $2 ~ /^pst_/ { print component, "uses", $2 }'
    done <"$work/table" | sort -u >"$work/symbols"
    awk -v table="$work/table" '
        BEGIN {
            while ((getline line < table) > 0) {
                component = line
                sub(/ .*/, "", component)
                may[component] = line
            }
        }
        FNR == NR { if ($2 == "defines") home[$3] = $1; next }
        $2 == "uses" && $3 in home {
            n++
            if (index(may[$1] " ", " " home[$3] " ")) next
            printf "%s uses %s of %s, which its row does not name\n", $1, $3, home[$3]
            bad++
        }
        END { printf "%d uses of other components, %d wrong\n", n, bad; exit bad > 0 || n == 0 }' "$work/symbols" "$work/symbols"
}

row_of() { # COMPONENT -> "component, component"
    sed -n "s,^pst_component($1 \\(.*\\))\$,\\1,p" "$components" | tr ' ' '\n' | grep -vE '::|\$|^m$' | paste -sd, | sed 's/,/, /g'
}

components_are_described() {
    bad=0
    for component in $(sed -n 's/^pst_component(\([a-z_/]*\).*/\1/p' "$components") kernels/cuda kernels/cuda/nccl src/cli; do
        n=$(find "$source_dir/$component" -maxdepth 1 \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | wc -l)
        lines=$(wc -l <"$source_dir/$component/README.md" 2>/dev/null || echo 0)
        [ "$n" -le 60 ] || {
            echo "$component: $n sources; 60 are the most"
            bad=1
        }
        [ "$lines" -gt 2 ] && [ "$lines" -le 20 ] && grep -q '^Read first: ' "$source_dir/$component/README.md" || {
            echo "$component/README.md: $lines lines; 3 to 20 say what the component is for, what to read first, what it may use"
            bad=1
        }
        grep -q "^pst_component($component[ )]" "$components" || continue
        row=$(row_of "$component")
        tr '\n' ' ' <"$source_dir/$component/README.md" | grep -q "May use: ${row:-no other component}[,.]" || {
            echo "$component/README.md: it may use ${row:-no other component}, says cmake/components.cmake"
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
components_are_described

# A cheat in each direction must be seen.
tree=$work/tree
mkdir -p "$tree/comm/world" "$tree/src/base" "$tree/src/cli" "$tree/src/rank" "$tree/pipeline/schedule" "$tree/kernels/cuda"
for cheat in 'comm/world/a.c kernels/kernel.h' 'src/base/a.h graph/graph.h' 'src/cli/a.c rank/rank.h' \
    'comm/world/a.c ../src/base/x.h' 'src/rank/a.c run/train.h' 'pipeline/schedule/a.c pipeline/compile/instr.h' \
    'kernels/cuda/a.c kernels/cuda/nccl/nccl.h'; do
    # shellcheck disable=SC2086
    set -- $cheat
    printf '#include "%s"\n' "$2" >"$tree/$1"
    if TREE=$tree sh "$0" >/dev/null; then
        echo "not seen: $cheat"
        exit 1
    fi
    rm "$tree/$1"
done
