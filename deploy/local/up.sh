#!/usr/bin/env bash
# Starts three redis-servers, three coordinators and three regional daemons from
# the configurations beside this file, and returns when every region holds a lease.
# bin/ must be built (make up does). State and logs are in .run/.
set -eu
cd "$(dirname "$0")/../.."
. deploy/local/lib.sh

within=120 # seconds to the leases

up=0
count=0
for name in $processes; do
	count=$((count + 1))
	if running "$name"; then up=$((up + 1)); fi
done
if [ $up -eq $count ]; then
	echo "already running; 'make down' stops it"
	exit 0
fi
if [ $up -gt 0 ]; then
	echo "$up of $count processes run; starting afresh" >&2
	deploy/local/down.sh
fi

deploy/local/install.sh redis-server
rm -rf "$run"
mkdir -p "$run"

for port in $redis_ports; do
	mkdir -p "$run/redis-$port"
	start "redis-$port" redis-server --port "$port" --bind 127.0.0.1 --dir "$run/redis-$port" \
		--save "" --appendonly no --maxmemory-policy noeviction --hz 100 --daemonize no
done
for node in c1 c2 c3; do
	start "$node" bin/coordinator --config "deploy/local/$node.yaml"
done
for region in $regions; do
	start "$region" bin/regional --config "deploy/local/$region.yaml"
done

# metrics PORT, without curl, which a small machine lacks.
metrics() (
	exec 3<>"/dev/tcp/127.0.0.1/$1"
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
	cat <&3
) 2>/dev/null

# leased PORT: whether the region whose ops port it is holds a lease.
leased() {
	metrics "$1" | awk '/^aliquot_lease_remaining_seconds/ && $NF > 0 {found = 1} END {exit !found}'
}

# give_up REASON NAME...: stops all, after the last lines of the logs of those named.
give_up() {
	echo "$1; all logs are in $run/*.log" >&2
	shift
	for name in "$@"; do
		echo "--- $run/$name.log" >&2
		tail -n 15 "$run/$name.log" >&2 || true
	done
	stop_all
	exit 1
}

# ended: the names of processes that do not run any more.
ended() {
	for name in $processes; do running "$name" || printf '%s ' "$name"; done
}

# all_run: gives up if a process has ended.
all_run() {
	gone=$(ended)
	# shellcheck disable=SC2086
	[ -z "$gone" ] || give_up "${gone% } ended" $gone
}

deadline=$(($(date +%s) + within))
for port in 7503 7513 7523; do
	until leased "$port"; do
		all_run
		# shellcheck disable=SC2086
		[ "$(date +%s)" -lt $deadline ] || give_up "no lease within $within s at the region with ops port $port" $processes
		sleep 0.2
	done
done
all_run

cat <<TEXT
running: coordinators on 127.0.0.1:7400 7410 7420, regions on 7500 7510 7520, redis on 7600 7610 7620
logs in $run/*.log; 'make down' stops all and wipes the data

  bin/aliquot check api_key=sk_1
  bin/aliquot bench rotate
  bin/aliquot cluster status
TEXT
