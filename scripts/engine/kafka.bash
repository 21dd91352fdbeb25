# shellcheck shell=bash disable=SC2154 # what it uses is set in scripts/engines
# Kafka, for scripts/engines.

install_kafka() {
  compgen -G "$libs/kafka_*.jar" >/dev/null && return
  need java default-jre-headless
  need mvn maven
  local fresh=$libs.new
  rm -rf "$fresh"
  mvn -q -B -Dstyle.color=never -f "$root/scripts/engine/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$fresh" </dev/null
  rm -rf "$libs"
  mv "$fresh" "$libs" # all of them or none
}

start_kafka() {
  need java default-jre-headless
  local dir=$engines/kafka
  running "$dir" && return
  install_kafka
  unused "$kafka_port" TALLYFEED_ENGINES_KAFKA_PORT
  unused $((kafka_port + 1)) TALLYFEED_ENGINES_KAFKA_PORT
  cat >"$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((kafka_port + 1))
listeners=PLAINTEXT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$((kafka_port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$kafka_port
controller.listener.names=CONTROLLER
log.dirs=$dir/data
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
  if [[ ! -e $dir/data/meta.properties ]]; then
    java -cp "$libs/*" kafka.tools.StorageTool format -c "$dir/server.properties" \
      -t "$(java -cp "$libs/*" kafka.tools.StorageTool random-uuid)" >"$dir/log" 2>&1 ||
      fail "Kafka's folder can't be formatted; see $dir/log"
  fi
  launch "$dir" java -Xmx512m -Dorg.apache.logging.log4j.level=INFO -cp "$libs/*" kafka.Kafka "$dir/server.properties"
  await 90 "Kafka on port $kafka_port" "$dir/log" grep -q 'Kafka Server started' "$dir/log"
}

stop_kafka() { end "$engines/kafka"; }
kafka_running() { running "$engines/kafka"; }
clean_kafka() { rm -rf "$engines/kafka/data" "$engines/kafka/log"; } # the jars stay
