# Functions of the scripts `interop/run`, `interop/cli`, `tests/benches/azurite/run` and `tests/benches/server/run`, which source this file.
# It sets `root`, the folder of the repository, `target`, Cargo's folder, and `installed`, the folder of the installed packages.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${CARGO_TARGET_DIR:-$root/target}"
target=$(cd "${CARGO_TARGET_DIR:-$root/target}" && pwd)
installed=$target/interop
mkdir -p "$installed/node"

# need PROGRAM...: ends the script with 2 if a program is not on the PATH.
need() {
  local program
  for program in "$@"; do
    [ -n "$(type -P "$program")" ] || { echo "$0 needs the program \`$program\` on the PATH" >&2; exit 2; }
  done
}

# install_python DIRECTORY LIST: installs the packages of a list of `interop/`. The copy of the list is written last, so an equal copy shows that the
# installation is complete.
install_python() {
  cmp -s "$root/interop/$2" "$installed/$2" && return
  rm -rf "${installed:?}/$1"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$installed/$1" --requirement "$root/interop/$2"
  cp "$root/interop/$2" "$installed/"
}

# install_node: installs the Node clients of `interop/package-lock.json`, in the same way.
install_node() {
  cmp -s "$root/interop/package-lock.json" "$installed/package-lock.json" && return
  cp "$root/interop/package.json" "$root/interop/package-lock.json" "$root/interop/.npmrc" "$installed/node/"
  (cd "$installed/node" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
  cp "$root/interop/package-lock.json" "$installed/"
}

# wait_for PROCESS LOG COMMAND...: repeats the command until it succeeds. Ends the script with the log if the process ends first.
wait_for() {
  local process=$1 log=$2
  shift 2
  until "$@"; do
    kill -0 "$process" 2>/dev/null || { echo "the server ended before it listened:" >&2; cat "$log" >&2; exit 1; }
    sleep 0.1
  done
}

# start_tables PROGRAM DIRECTORY ARGUMENT...: starts `tables serve` on a free port, with its output in the directory. Sets `started`, the process id,
# `connection`, the connection string, and `address`.
start_tables() {
  local program=$1 log=$2/tables
  shift 2
  : > "$log"
  "$program" serve "$@" --listen 127.0.0.1:0 > "$log" 2>&1 &
  started=$!
  listens() { connection=$(grep -o '[A-Za-z]*=.*AccountKey=.*' "$log"); }
  wait_for "$started" "$log" listens
  address=$(grep -o '127\.0\.0\.1:[0-9]*' <<< "$connection" | head -n 1)
}

# start_azurite DIRECTORY ARGUMENT...: starts the table service of Azurite on a free port, with its output in the directory, in the same way. It ends
# with this script at the latest. AZURITE is the folder of another installation.
start_azurite() {
  local log=$1/azurite package=${AZURITE:-$target/azurite/node_modules/azurite}
  [ -f "$package/dist/src/table/main.js" ] || { echo "\`cargo test -p azurite\` installs Azurite: run it first" >&2; exit 2; }
  mkfifo "$1/azurite-input"
  exec 9<> "$1/azurite-input"
  : > "$log"
  shift
  PATH="$(dirname "$package")/.bin:$PATH" node "$root/table-cli/src/emulator.js" --silent --disableTelemetry --inMemoryPersistence "$@" \
    < "$(dirname "$log")/azurite-input" 9>&- > "$log" 2>&1 &
  started=$!
  listens() { address=$(grep successfully "$log" | grep -o '127\.0\.0\.1:[0-9]*'); }
  wait_for "$started" "$log" listens
  local key="Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
  connection="AccountName=devstoreaccount1;AccountKey=$key;DefaultEndpointsProtocol=http;TableEndpoint=http://$address/devstoreaccount1"
}
