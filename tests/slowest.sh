#!/bin/sh
# slowest.sh JUNIT.XML [N]: the N tests that took longest, 10 by default, one per line: seconds, name. ./dev test prints
# that in continuous integration.
awk '
    /<testcase / {
        name = time = $0
        sub(/.* name="/, "", name)
        sub(/".*/, "", name)
        sub(/.* time="/, "", time)
        sub(/".*/, "", time)
        printf "%8.1f s  %s\n", time, name
    }
' "$1" | sort -k 1,1nr | head -n "${2:-10}"
