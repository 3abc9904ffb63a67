# Canal 1.1.4 by its own launcher, beside the newer server of java.sh. Sourced.

DEPLOYER_DESTINATIONS=old1,old2,old3,old4

start_canal_deployer() {
  alive mariadb || die "canal-deployer: MariaDB is not running in $DIR, and without it Canal would never be ready"
  [ -e "$(jars_folder canal-deployer)/complete" ] || command -v mvn >/dev/null || install_packages maven
  build_jars canal-deployer "Canal 1.1.4" 55
  start_on_port canal-deployer start_canal_deployer_on
}

start_canal_deployer_on() { # PORT
  local home=$DIR/canal-deployer number=0 destination
  make_password "$DIR/canal-password"
  mkdir -p "$home/conf"
  rm -f "$home/canal.log"
  write_file "$home/conf/canal.properties" <<CFG
canal.ip=127.0.0.1
canal.register.ip=127.0.0.1
canal.port=$1
canal.metrics.pull.port=-1
canal.zkServers=
canal.user=canal
canal.passwd=$(double_sha1 "$DIR/canal-password")
canal.serverMode=tcp
canal.withoutNetty=false
canal.destinations=$DEPLOYER_DESTINATIONS
canal.conf.dir=$home/conf
canal.auto.scan=false
canal.instance.global.mode=spring
canal.instance.global.lazy=false
canal.instance.global.spring.xml=classpath:lockkeeper-instance.xml
CFG
  {
    echo "mysqlPort=$(<"$DIR/mariadb/port")"
    echo mysqlUser=canal
    echo "mysqlPassword=$(<"$DIR/mariadb/canal-password")"
    # the database drops an older replica of the same id
    for destination in ${DEPLOYER_DESTINATIONS//,/ }; do
      number=$((number + 1))
      echo "slaveId.$destination=$(($1 * 100 + 50 + number))"
    done
  } | (umask 077 && write_file "$home/conf/lockkeeper.properties")
  launch canal-deployer "$home/canal.out" java -Xmx256m -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true \
    --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED -DappName=otter-canal -Dcanal.conf="$home/conf/canal.properties" \
    -Dlogback.configurationFile="$HERE/canal-node/logback.xml" -Dlockkeeper.log="$home/canal.log" -Dlockkeeper.level=INFO \
    -cp "$home/conf:$HERE/canal-deployer:$(jars_folder canal-deployer)/*" com.alibaba.otter.canal.deployer.CanalLauncher
  await_service canal-deployer
}

# The form in which a Canal server is told its password, as MySQL's PASSWORD() has it.
double_sha1() { # FILE
  mariadb --defaults-file="$DIR/mariadb/client.cnf" --batch --skip-column-names \
    -e "SELECT LOWER(SUBSTR(PASSWORD('$(<"$1")'), 2))" 9>&-
}

# Ready is: serving, and each destination has asked the database for its binlog.
deployer_answers() {
  local destination
  port_open "$(<"$DIR/canal-deployer/port")" || return 1
  for destination in ${DEPLOYER_DESTINATIONS//,/ }; do
    grep -qsE "\[$destination\] .*COM_BINLOG_DUMP" "$DIR/canal-deployer/canal.log" || return 1
  done
}
