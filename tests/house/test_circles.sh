#!/bin/sh
# test: label=quick timeout=60
# Files of one component that use each other in a circle cannot be read, built or tested one after the other. This counts such
# groups by the symbols of the object files: within each folder, files of which every one uses every other, directly or by
# way of others of that folder. The program's commands and the CUDA module count as well. There are none; the limits below
# only ever go down. `test_circles.sh BUILD` lists the groups of a build.
set -eu
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
groups=0 files=1
build=${1:-$(dirname "${PENSTOCK:?names the program that was built}")}

find "$build"/CMakeFiles/pst_*.dir "$build"/CMakeFiles/penstock_*.dir -name '*.c*.o' -print0 | sort -z | xargs -0 nm -A 2>/dev/null |
    awk -v source="$source_dir" -v groups="$groups" -v files="$files" '
    # PATH.dir/FILE.o:ADDRESS KIND SYMBOL; objects of files that are gone do not count.
    {
        at = index($0, ".o:")
        file = substr($0, 1, at - 1)
        sub(/.*\/(pst|penstock)_[^\/]*\.dir\//, "", file)
        if (!(file in here)) {
            here[file] = (getline line <(source "/" file)) >= 0
            close(source "/" file)
        }
        if (!here[file]) next
        m = split(substr($0, at + 3), word, " ")
        if (m == 3 && word[2] ~ /^[TDBRCV]$/) home[word[3]] = file
        if (m == 2 && word[1] == "U") {
            user[++n] = file
            symbol[n] = word[2]
        }
    }
    function component(file) { sub(/\/[^\/]*$/, "", file); return file }
    function add(file) {
        if (file in known) return
        known[file] = 1
        list[component(file), ++count[component(file)]] = file
    }
    END {
        for (i = 1; i <= n; i++) {
            to = home[symbol[i]]
            if (to == "" || to == user[i] || component(to) != component(user[i])) continue
            add(user[i])
            add(to)
            reaches[user[i], to] = 1
        }
        for (r in count) found += circles(r, count[r])
        printf "%d groups of files in circles, %d are the most; the largest has %d files, %d are the most\n",
            found, groups, largest, files
        exit n == 0 || found > groups || largest > files
    }
    # All that a file reaches within its component; then groups of those that reach each other.
    function circles(r, m,    i, j, k, size, text, sum) {
        for (k = 1; k <= m; k++)
            for (i = 1; i <= m; i++)
                if ((list[r, i], list[r, k]) in reaches)
                    for (j = 1; j <= m; j++)
                        if ((list[r, k], list[r, j]) in reaches) reaches[list[r, i], list[r, j]] = 1
        for (i = 1; i <= m; i++) {
            if (seen[list[r, i]] || !((list[r, i], list[r, i]) in reaches)) continue
            size = 0
            text = r ":"
            for (j = 1; j <= m; j++) {
                if (!((list[r, i], list[r, j]) in reaches) || !((list[r, j], list[r, i]) in reaches)) continue
                seen[list[r, j]] = 1
                size++
                text = text " " substr(list[r, j], length(r) + 2)
            }
            print text
            sum++
            if (size > largest) largest = size
        }
        return sum
    }'
