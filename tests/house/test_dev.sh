#!/bin/sh
# test: label=quick timeout=20
# The front door without building: help, unknown commands, and --no-install naming what is missing.
set -eu
cd "$SOURCE_DIR"
fail() {
    echo "$*" >&2
    exit 1
}
./dev help | grep -q 'demo' || fail "help does not list demo"
for script in dev .ci/run; do [ -x $script ] || fail "$script is not executable"; done
rc=0; ./dev 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "no command: status $rc, expected 2"
rc=0; ./dev dmeo 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "unknown command: status $rc, expected 2"
rc=0; ./dev build nosuch 2>/dev/null >&2 || rc=$?
[ $rc = 2 ] || fail "unknown preset: status $rc, expected 2"

# A machine where nothing is installed: dpkg-query finds no package.
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$fake/dpkg-query"
chmod +x "$fake/dpkg-query"
for command in 'demo' 'test'; do
    rc=0
    said=$(PATH=$fake:$PATH ./dev --no-install $command 2>&1) || rc=$?
    [ $rc = 2 ] || fail "--no-install $command: status $rc, expected 2"
    for package in gcc cmake libucx-dev libpmix-dev libdnnl-dev libhwloc-dev; do
        case $said in *"$package"*) ;; *) fail "--no-install $command does not name $package: $said" ;; esac
    done
done
case $said in *libcmocka-dev*) ;; *) fail "--no-install test does not name libcmocka-dev" ;; esac
