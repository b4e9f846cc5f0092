# What script tests begin with: `. "$(dirname "$0")/../script.sh"`. They work in a folder of their own, which goes with
# them, and end with `exit $bad`.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0

fail() {
    echo "FAILED: $*"
    bad=1
}
