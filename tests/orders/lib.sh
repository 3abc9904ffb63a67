# Sourced by the scripts beside it: builds the programs once, runs orders, checks its figures.
# Needs ROOT's cargo and bash only: the JSON is one line of plain numbers.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
TARGET=${CARGO_TARGET_DIR:-$PWD/target}
DATA=$(mktemp -d "${TMPDIR:-/tmp}/lockkeeper-orders.XXXXXX")

say() { echo "${0##*/}: $*" >&2; }
die() {
  say "$*"
  KEEP=yes
  exit 1
}

clean_up() {
  local code=$?
  trap - EXIT
  if [ -n "${ORDERS_PID:-}" ] && kill -0 "$ORDERS_PID" 2>/dev/null; then kill "$ORDERS_PID"; fi
  if ((code == 0)); then rm -rf "$DATA"; else say "kept for a look: $DATA"; fi
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

build() { cargo build --release --locked -p lockkeeper-examples -p lockkeeper-tests --bins; }

# The value of a number or bool in a JSON object of one line.
field() { # NAME JSON
  sed -n 's/.*"'"$1"'":\([^],}]*\).*/\1/p' <<<"$2"
}

expect() { # JSON NAME OPERATOR VALUE
  local value
  value=$(field "$2" "$1")
  [ -n "$value" ] || die "no $2 in $1"
  case $3 in
    =) [ "$value" = "$4" ] || die "$2 is $value, not $4: $1" ;;
    at-least) [ "$value" -ge "$4" ] || die "$2 is $value, less than $4: $1" ;;
    at-most) [ "$value" -le "$4" ] || die "$2 is $value, more than $4: $1" ;;
  esac
}

# Nothing lost, nothing counted twice.
expect_right() { # JSON
  expect "$1" lost = 0
  expect "$1" duplicated = 0
  expect "$1" totals_match = true
  expect "$1" digest_match = true
}
