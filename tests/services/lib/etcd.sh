# etcd on loopback, one member. Sourced.

start_etcd() { start_on_port etcd start_etcd_on; }

start_etcd_on() { # PORT
  local home=$DIR/etcd
  # A cluster of one member talks to nobody: the port for its peers may be any.
  launch etcd "$home/etcd.log" etcd --name single --data-dir "$home/data" --log-level warn \
    --listen-client-urls "http://127.0.0.1:$1" --advertise-client-urls "http://127.0.0.1:$1" \
    --listen-peer-urls http://127.0.0.1:0
  await_service etcd
}

etcd_answers() {
  local answer
  { exec 3<>"/dev/tcp/127.0.0.1/$(<"$DIR/etcd/port")"; } 2>/dev/null || return 1
  printf 'GET /health HTTP/1.0\r\n\r\n' >&3
  answer=$(timeout 2 cat <&3 9>&-) || true
  exec 3>&-
  [[ $answer == *'"health":"true"'* ]]
}
