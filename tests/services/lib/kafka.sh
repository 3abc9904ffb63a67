# Kafka on loopback: one process that is broker and controller (KRaft). Sourced.

start_kafka() { start_on_port kafka start_kafka_on; }

# Besides its own port it listens on a second one, whose clients are told a third address. Nothing is there: a test
# that wants to come between a client and the broker listens on it and passes on what it gets.
start_kafka_on() { # PORT
  local home=$DIR/kafka
  install_kafka
  local java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true
    "-Dlog4j.configuration=file:$HERE/kafka-node/log4j.properties" -cp "$(jars_folder kafka-node)/*")
  mkdir -p "$home/data"
  chosen_once "$home/controller-port"
  chosen_once "$home/between-port"
  chosen_once "$home/behind-port"
  write_file "$home/server.properties" <<CFG
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(<"$home/controller-port")
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:$1,BEHIND://127.0.0.1:$(<"$home/behind-port"),CONTROLLER://127.0.0.1:$(<"$home/controller-port")
advertised.listeners=PLAIN://127.0.0.1:$1,BEHIND://127.0.0.1:$(<"$home/between-port")
listener.security.protocol.map=PLAIN:PLAINTEXT,BEHIND:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
log.dirs=$home/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.cleaner.enable=false
CFG
  if [ ! -e "$home/data/meta.properties" ]; then
    "${java[@]}" -Xmx64m kafka.tools.StorageTool format -t "$(kafka_id)" -c "$home/server.properties" >>"$home/kafka.log" 2>&1 9>&- ||
      { show_log "kafka: its folder could not be made" "$home/kafka.log"; return 1; }
  fi
  # the log is appended to over restarts: only what follows is of this one
  stat -c %s "$home/kafka.log" | write_file "$home/log-start"
  launch kafka "$home/kafka.log" "${java[@]}" -Xmx192m kafka.Kafka "$home/server.properties"
  await_service kafka
}

# 16 bytes, as Kafka writes a UUID
kafka_id() { head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '='; }

chosen_once() { # FILE
  [ -s "$1" ] || choose_port | write_file "$1"
}

kafka_answers() {
  port_open "$(<"$DIR/kafka/port")" &&
    tail -c "+$(($(<"$DIR/kafka/log-start") + 1))" "$DIR/kafka/kafka.log" | grep -q 'Kafka Server started'
}
