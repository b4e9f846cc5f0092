#!/bin/sh
# test: label=full timeout=240
# The packages that cpack makes, tried in a root that holds nothing but what they declare: the files of the packages in
# their dependencies' closure (as installed here), a shell and ldconfig. dpkg installs the .deb files there and checks
# versions; the archive is unpacked beside. Both train the demo from other folders and must end with the same weights as
# the program in the build folder. Not shown: that a package source offers those dependencies.
set -u
[ -z "${PST_SANITIZE:-}" ] || { echo "skipped: a plain program cannot load an instrumented library"; exit 77; }
for tool in cpack dpkg dpkg-shlibdeps file gzip tar unshare chroot; do
    command -v $tool >/dev/null 2>&1 || { echo "skipped: no $tool here"; exit 77; }
done
if [ "$(id -u)" = 0 ]; then isolate="unshare -m --propagation private"; else isolate="unshare -rm"; fi
$isolate true 2>/dev/null || { echo "skipped: no mount namespaces here"; exit 77; }
build=$(dirname "$PENSTOCK")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

(cd "$build" && cpack -B "$work/packages") >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail cpack; }
cd "$work" || exit 1
rm -rf packages/_CPack_Packages
debs=$(find packages -name '*.deb' | sort)
[ "$(echo "$debs" | wc -l)" = 3 ] || fail "expected three .deb files: $debs"

# What was packed: each package's own files, nothing that remembers where it was built.
mkdir all archive
for deb in $debs; do dpkg-deb -x "$deb" all; done
tar -xzf packages/*.tar.gz -C archive --strip-components=1
for file in bin/penstock share/man/man1/penstock-train.1 share/man/man5/penstock.yaml.5 share/penstock/demo.yaml \
    share/bash-completion/completions/penstock include/penstock/run.h share/doc/penstock/copyright; do
    [ -f archive/$file ] || fail "no $file in the archive"
    [ -f all/usr/$file ] || [ -f all/usr/$file.gz ] || fail "no usr/$file in the .deb files"
done
grep -rlF "$build" all archive && fail "these files name the build folder"
find all archive -type d -empty | grep . && fail "empty folders"
if command -v readelf >/dev/null 2>&1; then
    find all -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec readelf -d {} + | grep -E 'R(UN)?PATH' &&
        fail "a search path in a Debian package"
    readelf -d archive/lib/penstock/penstock-commands.so | grep -q 'PATH.*\[\$ORIGIN/\.\.\]' ||
        fail "the archive cannot be moved"
fi
case $(dpkg-deb -f packages/penstock_*.deb Depends) in
    *libpenstock0*) ;;
    *) fail "the program does not need its library" ;;
esac
case $(dpkg-deb -f packages/libpenstock0_*.deb Depends) in
    *libucx0*libyaml*) ;;
    *) fail "the library's dependencies" ;;
esac
[ "$(dpkg-deb -f packages/libpenstock-dev_*.deb Description | wc -l)" -gt 3 ] || fail "no description"
if command -v lintian >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    lintian --allow-root $debs 2>/dev/null | grep '^E:' && fail lintian
fi

# The closure of dependencies (a list as in Depends) among what is installed here, in a file.
closure_of() { # DEPENDS FILE
    dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n' | grep '^ii' |
        awk -F '\t' -v declared="$1" '
    function want(list,    n, m, i, j, item, choice, name) {
        n = split(list, item, ",")
        for (i = 1; i <= n; i++) {
            m = split(item[i], choice, "|")
            for (j = 1; j <= m; j++) {
                name = choice[j]
                gsub(/\([^)]*\)|:any|[ \t]/, "", name)
                if (!(name in needs)) name = provider[name]
                if (name == "") continue
                if (!(name in seen)) { seen[name] = 1; queue[++last] = name }
                break
            }
        }
    }
    {
        needs[$2] = $3
        n = split($4, given, ",")
        for (i = 1; i <= n; i++) { gsub(/\([^)]*\)|[ \t]/, "", given[i]); provider[given[i]] = $2 }
    }
    END {
        want(declared)
        for (at = 1; at <= last; at++) { print queue[at]; want(needs[queue[at]]) }
    }' >"$2"
}
declared=$(for deb in $debs; do dpkg-deb -f "$deb" Depends; done | tr '\n' ',')
closure_of "$declared, dash, libc-bin" closure
closure_of "dash, libc-bin" least
[ "$(wc -l <closure)" -gt 10 ] || fail "too few dependencies: $(tr '\n' ' ' <closure)"

# A folder with the files of the packages in a list.
make_root() { # FOLDER LIST
    mkdir -p $1/usr/bin $1/usr/sbin $1/usr/lib $1/usr/lib64 $1/proc $1/sys $1/dev $1/tmp/here $1/opt $1/etc
    for name in bin sbin lib lib64; do ln -s usr/$name $1/$name; done
    xargs dpkg -L <"$2" | grep -v -e '^/usr/share/\(doc\|man\|locale\|info\|lintian\)/' | sort -u |
        while read -r file; do
            [ -d "$file" ] && [ ! -h "$file" ] || [ ! -e "$file" ] || printf '%s\n' "$file"
        done >files
    tar -cf - -T files --no-recursion 2>/dev/null | tar -xf - -C $1
    cp -r archive "$1/opt/some where"
}

# On a machine without them, doctor names every library that is missing, with packages that are declared dependencies.
make_root bare least
needed=$(readelf -d archive/lib/libpenstock.so.0 | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -v -e '^libc\.' -e '^libm\.' -e '^ld-')
rc=0
$isolate chroot bare '/opt/some where/bin/penstock' doctor >doctor.out 2>doctor.err || rc=$?
[ $rc = 4 ] || fail "doctor on a bare machine: status $rc"
for library in $needed; do
    if [ -e "bare/lib/$(cc -dumpmachine)/$library" ]; then # Debian itself has it
        sed -n '/^found:/,$p' doctor.out | grep -q "^  $library " || fail "doctor on a bare machine misses $library"
        continue
    fi
    grep -A 1 "^  $library " doctor.out | grep -q 'apt-get install' ||
        fail "doctor on a bare machine does not name $library"
done
for package in $(sed -n 's/.*apt-get install//p' doctor.err); do
    case ", $declared," in
        *" $package "* | *" $package,"*) ;;
        *) fail "doctor names $package, which is no dependency" ;;
    esac
done
grep -q 'apt-get install.* libucx0' doctor.err || fail "doctor on a bare machine names no packages: $(cat doctor.err)"

root=$work/root
make_root root closure
mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/lib/dpkg/triggers
xargs dpkg-query -s <closure >root/var/lib/dpkg/status 2>/dev/null
for name in libpenstock0 libpenstock-dev penstock; do # none of an earlier installation here
    grep -qx "Package: $name" root/var/lib/dpkg/status && { echo "skipped: $name is installed here"; exit 77; }
done
: >root/var/lib/dpkg/available

cat >inside.sh <<'INSIDE'
set -u
root=$1
shift
for name in proc sys dev; do mount --rbind /$name "$root/$name" || exit 77; done
dpkg --root="$root" --force-not-root --log="$root/tmp/log" -i "$@" >"$root/tmp/said" 2>&1 ||
    { cat "$root/tmp/said"; exit 1; }
train='train "$1/share/penstock/demo.yaml" -n 2 steps=2 warmup=1 batch=8 validate_every=0 validation=0.001 name="$2" -q'
for at in '/usr' '/opt/some where'; do
    chroot "$root" /bin/sh -c 'cd / && "$1/bin/penstock" --version' sh "$at" ||
        { echo "FAILED: --version in $at"; exit 1; }
    chroot "$root" /bin/sh -c 'cd / && "$1/bin/penstock" doctor' sh "$at" >"$root/tmp/doctor" ||
        { echo "FAILED: doctor in $at"; exit 1; }
    name=$(basename "$at" | tr -d ' ')
    chroot "$root" /bin/sh -c 'cd /tmp/here && "$1/bin/penstock" '"$train" sh "$at" "$name" ||
        { echo "FAILED: training in $at"; exit 1; }
done
INSIDE
rc=0
# shellcheck disable=SC2086
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ ${PENSTOCK_ISA:+"PENSTOCK_ISA=$PENSTOCK_ISA"} $isolate sh inside.sh "$root" $debs || rc=$?
[ $rc != 77 ] || { echo "skipped: cannot bind /proc, /sys and /dev"; exit 77; }
[ $rc = 0 ] || exit 1

hash_of() { sed -n 's/.*"weights_xxh64":"\([0-9a-f]*\)".*/\1/p' "$1/metrics.jsonl"; }
(cd "$SOURCE_DIR" && "$PENSTOCK" train demo/demo.yaml -n 2 steps=2 warmup=1 batch=8 validate_every=0 validation=0.001 \
    name=tree -q --runs "$work/runs") || fail "training in the source tree"
expected=$(hash_of runs/tree)
[ -n "$expected" ] || fail "no hash of weights in the source tree's run"
for name in usr somewhere; do
    [ "$(hash_of root/tmp/here/runs/$name)" = "$expected" ] || fail "$name: other weights than $expected"
done
echo "$(wc -l <closure) packages in the root; weights $expected everywhere"
