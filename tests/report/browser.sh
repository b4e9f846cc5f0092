# shellcheck shell=sh disable=SC2034,SC2154 # of those that source it
# Pages in headless Chromium, for the tests that source this in a folder of their own, $folder. Without a browser, or one
# that does not start, the test is skipped.
for name in chromium chromium-browser google-chrome; do command -v $name >/dev/null 2>&1 && break; name=; done
if [ -z "$name" ] || ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: needs chromium and python3"
    exit 77
fi
bad=0
fail() { echo "FAILED: $*"; bad=1; }
browse() { # WIDTH ARGUMENT...
    width=$1
    shift
    timeout 60 "$name" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$folder/profile" \
        --no-first-run --window-size="$width",1400 --enable-logging=stderr "$@" 2>err
}
echo '<p>x</p>' >try.html
if ! browse 500 --dump-dom "file://$folder/try.html" >dom || ! grep -q '<p>x</p>' dom; then
    echo "skipped: $name does not start: $(tail -n 1 err)"
    exit 77
fi

# The page's own last word, a title of what SCRIPT says: whether it is wider than the window, and more.
last_word() { # PAGE WIDTH SCRIPT
    sed "s#</body>#<script>document.title = [document.documentElement.scrollWidth <= innerWidth ? 'fits' : 'too wide', $3].join(' ')</script></body>#" \
        "$1" >page.html
    browse "$2" --dump-dom "file://$folder/page.html" >dom || fail "$1: the browser failed: $(tail -3 err)"
    grep -E 'CONSOLE|Refused to|violates' err && fail "$1: the browser complains"
    grep -q '</html>' dom || fail "$1: no page"
    grep -q '<title>fits' dom || fail "$1 at $2: $(grep -o '<title>[^<]*' dom)"
}

not_blank() { # PAGE ARGUMENT...
    page=$1
    shift
    browse 1280 "$@" --screenshot="$folder/page.png" "file://$folder/$page" >/dev/null || fail "$page: no picture"
    python3 - page.png <<'END' || fail "$page: the picture is blank"
import sys, zlib
data, at, pixels = open(sys.argv[1], "rb").read(), 8, b""
while at < len(data):
    size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
    if kind == b"IDAT":
        pixels += data[at + 8:at + 8 + size]
    at += 12 + size
sys.exit(len(set(zlib.decompress(pixels))) < 32)
END
}
