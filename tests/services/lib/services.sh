# Everything the scripts of tests/services need, in one line for each of them. Sourced; HERE is set.
. "$HERE/lib/common.sh"
. "$HERE/lib/install.sh"
. "$HERE/lib/mariadb.sh"
. "$HERE/lib/java.sh"
. "$HERE/lib/deployer.sh"
. "$HERE/lib/redis.sh"
. "$HERE/lib/etcd.sh"
. "$HERE/lib/kafka.sh"

# Starts a service unless it runs. A record whose process is gone, by kill -9 or a reboot, counts as not running;
# one that runs may have been started by a call that was killed while it waited.
ensure_running() { # NAME
  if alive "$1"; then
    await_service "$1" || die "$1 runs as process $PID and is not ready"
    return
  fi
  if [ -e "$DIR/$1/pid" ]; then say "$1: its process $PID is gone; starting it again"; fi
  rm -f "$DIR/$1/pid"
  "start_${1//-/_}"
}

# The limits are several times what a start takes on two busy cores.
await_service() { # NAME
  case $1 in
    mariadb) wait_ready mariadb 60 "$DIR/mariadb/mariadb.log" mariadb_answers ;;
    zookeeper) wait_ready zookeeper 30 "$DIR/zookeeper/zookeeper.log" zookeeper_answers ;;
    redis) wait_ready redis 30 "$DIR/redis/redis.log" redis_answers ;;
    etcd) wait_ready etcd 60 "$DIR/etcd/etcd.log" etcd_answers ;;
    kafka) wait_ready kafka 90 "$DIR/kafka/kafka.log" kafka_answers ;;
    canal-deployer) wait_ready canal-deployer 90 "$DIR/canal-deployer/canal.log" deployer_answers ;;
    canal*) wait_ready "$1" 90 "$DIR/$1/canal.log" canal_answers "$1" ;;
  esac
}

# The addresses of what runs, one NAME=value a line. A password is given by the file that has it.
print_addresses() {
  echo "LOCKKEEPER_SERVICES=$DIR"
  if alive mariadb; then
    echo "LOCKKEEPER_MYSQL=$(address mariadb)"
    echo "LOCKKEEPER_MYSQL_USER=lockkeeper"
    echo "LOCKKEEPER_MYSQL_PASSWORD_FILE=$DIR/mariadb/password"
  fi
  if alive zookeeper; then echo "LOCKKEEPER_ZOOKEEPER=$(address zookeeper)"; fi
  if alive redis; then echo "LOCKKEEPER_REDIS=$(address redis)"; fi
  if alive etcd; then echo "LOCKKEEPER_ETCD=$(address etcd)"; fi
  if alive kafka; then
    echo "LOCKKEEPER_KAFKA=$(address kafka)"
    echo "LOCKKEEPER_KAFKA_BETWEEN=127.0.0.1:$(<"$DIR/kafka/between-port"),127.0.0.1:$(<"$DIR/kafka/behind-port")"
  fi
  if alive canal || alive canal-ha-1 || alive canal-deployer; then
    echo "LOCKKEEPER_CANAL_USER=canal"
    echo "LOCKKEEPER_CANAL_PASSWORD_FILE=$DIR/canal-password"
  fi
  if alive canal; then
    echo "LOCKKEEPER_CANAL=$(address canal)"
    echo "LOCKKEEPER_CANAL_DESTINATIONS=$(sed -n 's/^destinations=//p' "$DIR/canal/node.properties")"
  fi
  if alive canal-deployer; then
    echo "LOCKKEEPER_CANAL_DEPLOYER=$(address canal-deployer)"
    echo "LOCKKEEPER_CANAL_DEPLOYER_DESTINATIONS=$DEPLOYER_DESTINATIONS"
  fi
  if alive canal-ha-1 && alive canal-ha-2; then
    echo "LOCKKEEPER_CANAL_HA=$(address canal-ha-1),$(address canal-ha-2)"
    echo "LOCKKEEPER_CANAL_HA_DESTINATIONS=$HA_DESTINATIONS"
  fi
}
