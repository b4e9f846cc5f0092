#!/bin/sh
# skipped.sh JUNIT.XML: every test that skipped itself, or a part of itself, with its reason: the lines of its output that
# begin with "skipped: ". ./dev test prints that before its last line.
exec awk '
    /<testcase / {
        name = $0
        sub(/.* name="/, "", name)
        sub(/".*/, "", name)
        whole = 0
        n = 0
    }
    /<skipped/ { whole = 1 }
    {
        line = $0
        sub(/.*<system-out>/, "", line)
        sub(/<\/system-out>.*/, "", line)
    }
    line ~ /^skipped: / && !said[name, line]++ {
        sub(/^skipped: /, "", line)
        gsub(/&lt;/, "<", line)
        gsub(/&gt;/, ">", line)
        gsub(/&quot;/, "\"", line)
        gsub(/&apos;/, "\047", line)
        gsub(/&amp;/, "\\&", line)
        why[n++] = line
    }
    /<\/testcase>/ {
        if (whole && !n) why[n++] = "it does not say why"
        for (i = 0; i < n; i++) print (whole ? "skipped " : "skipped a part of ") name ": " why[i]
    }
' "$1"
