#!/usr/bin/env bash
# One Apache Kafka broker in KRaft mode on loopback, for tests. Needs install-kafka.sh to have run.
#
#   kafka.sh start DIR [PORT]   starts it with its data in DIR and waits until it serves; prints 127.0.0.1:PORT. Without PORT it
#                               listens where it did before in DIR, else on a free port. Running already, it is left alone.
#   kafka.sh stop DIR           stops it in good order; its data stays.
#   kafka.sh kill DIR           kills it (SIGKILL); its data stays.
#   kafka.sh topic DIR NAME N   creates a topic with N partitions.
#   kafka.sh status DIR         prints its address, or fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2"
directory=$(cd "$2" && pwd)
lib=${THALWEG_KAFKA:-$SERVICES_ROOT/kafka}/lib
# The path of the properties file is in the command line, which tells our broker from any other process.
properties=$directory/server.properties
pidfile=$directory/pid
log=$directory/broker.log

java_run() { java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$lib/*" "$@"; }

write_properties() {
    local port=$1 controller=$2
    cat >"$properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$controller
log.dirs=$directory/data
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.threads=1
num.io.threads=2
num.network.threads=2
PROPERTIES
}

# Asks for the list of API versions over TCP: 18 bytes of request, an answer with the same correlation id and error 0.
speaks_kafka() {
    local answer
    answer=$(
        exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf '\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x2a\xff\xff' >&3
        timeout 5 head -c 10 <&3 | od -An -tx1 -j4 | tr -d ' \n'
    ) 2>/dev/null || return 1
    [ "$answer" = "0000002a0000" ]
}

wait_until_serving() {
    local port=$1 deadline=$((SECONDS + 120))
    # The log line comes once the controller has let the broker in; before that it answers, but knows no topics.
    until grep -qs 'Kafka Server started' "$log" && speaks_kafka "$port"; do
        alive "$pidfile" "$properties" || { tail -30 "$log" >&2; die "the broker ended while starting"; }
        [ "$SECONDS" -lt "$deadline" ] || { tail -30 "$log" >&2; die "the broker did not serve within 120 s"; }
        sleep 0.1
    done
}

start() {
    local port=${1:-} controller
    [ -d "$lib" ] || die "no broker in $lib; run install-kafka.sh"
    if alive "$pidfile" "$properties"; then
        port=$(cat "$directory/port")
        wait_until_serving "$port"
        echo "127.0.0.1:$port"
        return
    fi
    if [ -z "$port" ]; then port=$(cat "$directory/port" 2>/dev/null || free_port); fi
    controller=$(cat "$directory/controller.port" 2>/dev/null || free_port "$port")
    if [ ! -e "$directory/controller.port" ]; then
        write_properties "$port" "$controller"
        java_run "-Dlog4j2.configurationFile=$here/kafka/log4j2.properties" kafka.tools.StorageTool format --ignore-formatted \
            -t "$(java_run kafka.tools.StorageTool random-uuid 2>/dev/null | tail -1)" -c "$properties" >"$directory/format.log" 2>&1 \
            || { tail -30 "$directory/format.log" >&2; die "the broker's storage could not be formatted"; }
        echo "$controller" >"$directory/controller.port"
    fi
    write_properties "$port" "$controller"
    echo "$port" >"$directory/port"
    : >"$log"
    # In a session of its own, so that Ctrl-C at a test run reaches the tests first and they can stop the broker.
    setsid java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$here/kafka/log4j2.properties" \
        -cp "$lib/*" kafka.Kafka "$properties" >>"$log" 2>&1 </dev/null 9>&- &
    echo $! >"$pidfile"
    wait_until_serving "$port"
    echo "127.0.0.1:$port"
}

# Two starts in one folder at once would share its data; the second waits and finds the broker running.
exec 9>"$directory/.lock"
flock 9

case $action in
    start) start "${3:-}" ;;
    stop) stop_process "$pidfile" "$properties" TERM ;;
    kill) stop_process "$pidfile" "$properties" KILL ;;
    topic)
        java_run org.apache.kafka.tools.TopicCommand --create --topic "$3" --partitions "$4" \
            --bootstrap-server "127.0.0.1:$(cat "$directory/port")" >/dev/null
        ;;
    status)
        alive "$pidfile" "$properties" || { say "no broker runs in $directory"; exit 1; }
        echo "127.0.0.1:$(cat "$directory/port")"
        ;;
    *) usage ;;
esac
