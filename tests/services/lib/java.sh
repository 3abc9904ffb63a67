# ZooKeeper and Canal: Java programs from the jars that install.sh builds. Sourced.

# java_service NAME LOG LEVEL ARGUMENTS...
# Canal's libraries reach into java.lang and java.util, which Java 17 keeps shut.
java_service() {
  local name=$1 log=$2 level=$3
  shift 3
  # both are appended to over restarts: what led to one stays to be read
  launch "$name" "${log%.log}.out" java -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true \
    --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
    -Dlogback.configurationFile="$HERE/canal-node/logback.xml" -Dlockkeeper.log="$log" -Dlockkeeper.level="$level" \
    -cp "$(jars_folder canal-node)/*" "$@"
}

# --- ZooKeeper ---------------------------------------------------------------------------------------------

start_zookeeper() { start_on_port zookeeper start_zookeeper_on; }

# Sessions of 4 s at most: Canal's own client asks for 90 s, and a fail-over would take as long.
start_zookeeper_on() { # PORT
  local home=$DIR/zookeeper
  mkdir -p "$home/data"
  write_file "$home/zoo.cfg" <<CFG
dataDir=$home/data
clientPort=$1
clientPortAddress=127.0.0.1
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=4000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
forceSync=no
CFG
  java_service zookeeper "$home/zookeeper.log" WARN -Xmx128m -XX:TieredStopAtLevel=1 \
    -Dzookeeper.jmx.log4j.disable=true org.apache.zookeeper.server.quorum.QuorumPeerMain "$home/zoo.cfg"
  await_service zookeeper
}

zookeeper_answers() {
  local port
  port=$(<"$DIR/zookeeper/port")
  [ "$( (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf ruok >&3 && timeout 2 cat <&3) 2>/dev/null)" = imok ]
}

# --- Canal -------------------------------------------------------------------------------------------------

# A destination has one read position, so it serves one client id: each test takes one of its own.
# `example` passes every table from the start, as a server's default instance does. The others pass nothing
# until a client subscribes with a filter: a test does not get the rows of the tests before it, and a
# destination that no one reads costs little.
CANAL_DESTINATIONS=${LOCKKEEPER_CANAL_DESTINATION_COUNT:-12}

canal_destinations() {
  local number
  printf 'example'
  for ((number = 1; number <= CANAL_DESTINATIONS; number++)); do printf ',test%02d' "$number"; done
}

start_canal() { start_on_port canal start_canal_on; }

start_canal_on() { # PORT
  start_canal_node canal "$1" 512m <<CFG
destinations=$(canal_destinations)
filter=nothing
filter.example=.*\\\\..*
CFG
}

HA_DESTINATIONS=ha1,ha2,ha3,ha4
start_canal_ha_1() { start_on_port canal-ha-1 start_canal_ha_1_on; }
start_canal_ha_2() { start_on_port canal-ha-2 start_canal_ha_2_on; }
start_canal_ha_1_on() { start_canal_ha canal-ha-1 "$1"; }
start_canal_ha_2_on() { start_canal_ha canal-ha-2 "$1"; }

start_canal_ha() { # NAME PORT
  alive zookeeper || die "$1: ZooKeeper is not running in $DIR"
  start_canal_node "$1" "$2" 256m <<CFG
destinations=$HA_DESTINATIONS
zookeeper=$(address zookeeper)
filter=.*\\\\..*
CFG
}

# start_canal_node NAME PORT HEAP: the rest of its settings on stdin
start_canal_node() {
  local name=$1 home=$DIR/$1
  alive mariadb || die "$name: MariaDB is not running in $DIR, and without it Canal would never be ready"
  make_password "$DIR/canal-password"
  mkdir -p "$home/meta"
  rm -f "$home/state"
  { cat && cat <<CFG; } | write_file "$home/node.properties"
port=$2
user=canal
passwordFile=$DIR/canal-password
mysqlPort=$(<"$DIR/mariadb/port")
mysqlUser=canal
mysqlPasswordFile=$DIR/mariadb/canal-password
dataDir=$home/meta
stateFile=$home/state
CFG
  java_service "$name" "$home/canal.log" INFO "-Xmx$3" lockkeeper.services.CanalNode "$home/node.properties"
  await_service "$name"
}

# Ready is: serving, and each destination that this node runs has asked the database for its binlog.
canal_answers() { # NAME
  grep -qsx READY "$DIR/$1/state" && port_open "$(<"$DIR/$1/port")"
}
