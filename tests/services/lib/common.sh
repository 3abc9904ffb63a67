# What the scripts of tests/services share: messages, process records, ports, the lock of a DIR.
# Sourced. Needs bash, coreutils, util-linux, and Linux' /proc.
#
# A service NAME keeps everything in DIR/NAME: `pid` (its process, see alive), `port`, its log, its data.

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

# A script that is killed between two steps leaves a DIR that the next call must find whole.
write_file() { # FILE: stdin, by rename
  cat >"$1.draft" && mv -f "$1.draft" "$1"
}

# --- the services of a DIR ---------------------------------------------------------------------------------

# in the order of starting; stopping goes the other way
ALL_SERVICES=(mariadb zookeeper redis etcd canal canal-ha-1 canal-ha-2 canal-deployer kafka)

is_service() {
  local name
  for name in "${ALL_SERVICES[@]}"; do [ "$1" = "$name" ] && return; done
  return 1
}

# Sets DIR, absolute, and makes everything after it wait for other calls on the same DIR.
enter_dir() { # DIR create|existing
  if [ "$2" = create ]; then
    mkdir -p "$1" || die "cannot create $1"
  else
    [ -d "$1" ] || die "$1 is not there: nothing was started in it"
  fi
  DIR=$(cd "$1" && pwd)
  exec 9>"$DIR/lock"
  flock -w 600 9 || die "another call has been at work on $DIR for 10 minutes"
}

# --- processes ---------------------------------------------------------------------------------------------

# A process id is used again sooner or later. With its start time it names one process until the next boot,
# so a record that outlived its process, by kill -9 or a reboot, never points to a stranger.
process_start() { # PID: prints the start time in clock ticks since boot; fails for a dead process
  local stat fields threads
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  # the second field is the program's name in brackets and may hold blanks
  read -ra fields <<<"${stat##*) }"
  # A zombie is dead, but only once its other threads are gone: until then a killed server holds its port.
  threads=("/proc/$1/task/"*)
  [ "${fields[0]}" != Z ] || ((${#threads[@]} > 1)) || return 1
  echo "${fields[19]}"
}

record_process() { # NAME PID
  local start
  start=$(process_start "$2") || start=0
  echo "$2 $start $(</proc/sys/kernel/random/boot_id)" | write_file "$DIR/$1/pid"
}

# alive NAME: true when the recorded process lives; sets PID
alive() {
  local start boot
  PID=
  [ -s "$DIR/$1/pid" ] || return 1
  read -r PID start boot <"$DIR/$1/pid"
  [ "$boot" = "$(</proc/sys/kernel/random/boot_id)" ] && [ "$(process_start "$PID")" = "$start" ]
}

# launch NAME LOG COMMAND...: starts a service in a session of its own, so that a Ctrl-C meant for the script
# does not reach it, and records it. Its start time must not change between the fork and the exec: it does not.
launch() {
  local name=$1 log=$2
  shift 2
  setsid "$@" >>"$log" 2>&1 </dev/null 9>&- &
  record_process "$name" $!
}

# wait_ready NAME SECONDS LOG TEST...: polls TEST; 1 when the process ends before or the limit is over
wait_ready() {
  local name=$1 limit=$2 log=$3 deadline
  shift 3
  deadline=$((SECONDS + limit))
  until "$@"; do
    if ! alive "$name"; then
      show_log "$name: the process ended before it was ready" "$log"
      return 1
    fi
    if ((SECONDS >= deadline)); then
      show_log "$name: not ready after $limit s" "$log"
      return 1
    fi
    sleep 0.05
  done
}

# A Java service's LOG.out beside LOG.log has what it said before it could log.
show_log() { # WHAT LOG
  local log
  say "$1"
  for log in "$2" "${2%.log}.out"; do
    [ -s "$log" ] || continue
    say "the end of $log:"
    tail -n 20 "$log" | cut -c1-300 >&2
  done
}

signal() { # NAME SIGNAL: to the recorded process only
  if alive "$1"; then kill "-$2" "$PID" 2>/dev/null || true; fi
}

# stop_services TERM|KILL NAME...: asks all at once, then waits for each, and kills what has not gone in 20 s
stop_services() {
  local how=$1 name deadline
  shift
  for name in "$@"; do
    signal "$name" "$how"
    # a process that SIGSTOP holds takes a TERM only after it is let go
    signal "$name" CONT
  done
  deadline=$((SECONDS + 20))
  for name in "$@"; do
    while alive "$name" && ((SECONDS < deadline)); do sleep 0.05; done
    if alive "$name"; then
      say "$name: still there 20 s after $how; killing it"
      signal "$name" KILL
      while alive "$name"; do sleep 0.05; done
    elif [ -e "$DIR/$name/pid" ]; then
      say "$name: stopped"
    fi
    rm -f "$DIR/$name/pid"
  done
}

# --- ports -------------------------------------------------------------------------------------------------

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The ports lie below the kernel's range for outgoing connections and for port 0: there, whatever the tests
# open could take a service's port while the service is being restarted.
choose_port() {
  local low=15000 high port
  read -r high _ </proc/sys/net/ipv4/ip_local_port_range
  ((high > low + 1000)) || { low=1100; high=10000; }
  for _ in {1..200}; do
    port=$((low + (RANDOM * 32768 + RANDOM) % (high - low)))
    port_open "$port" || { echo "$port"; return; }
  done
  die "found no free port between $low and $high"
}

# start_on_port NAME START: calls START PORT with the port of the last time, or a free one. A port that
# someone else took between the choice and the bind is given up for another, twice.
# A restart has KEEP_PORT=true: its clients know the address.
KEEP_PORT=false
start_on_port() {
  local name=$1 start=$2 port attempt
  mkdir -p "$DIR/$name"
  port=$(cat "$DIR/$name/port" 2>/dev/null) || port=
  if [ -n "$port" ] && port_open "$port"; then
    ! $KEEP_PORT || die "$name: another program listens on its port $port"
    say "$name: another program listens on its port $port; choosing another"
    port=
    # those that were told the old one
    case $name in
      mariadb) stop_services TERM canal canal-ha-1 canal-ha-2 canal-deployer ;;
      zookeeper) stop_services KILL canal-ha-1 canal-ha-2 ;;
    esac
  fi
  for attempt in 1 2 3; do
    [ -n "$port" ] || port=$(choose_port)
    echo "$port" | write_file "$DIR/$name/port"
    say "$name: starting on 127.0.0.1:$port"
    if "$start" "$port"; then return; fi
    stop_services KILL "$name"
    if $KEEP_PORT || ((attempt == 3)) || ! port_open "$port"; then break; fi
    say "$name: its port $port is taken; choosing another"
    port=
  done
  die "$name did not start (what was started before it runs on: tests/services/down $DIR stops it)"
}

address() { echo "127.0.0.1:$(<"$DIR/$1/port")"; }

# --- secrets -----------------------------------------------------------------------------------------------

# make_password FILE: once per DIR, readable by its owner only
make_password() {
  [ -s "$1" ] && return
  (umask 077 && head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' | write_file "$1")
}
