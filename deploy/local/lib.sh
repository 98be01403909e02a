# Shared by up.sh and down.sh, which run at the top of the repository.

run=.run
redis_ports="7600 7610 7620"
regions="us-east eu-west ap-south"
# Started in this order, stopped in the reverse one.
processes="redis-7600 redis-7610 redis-7620 c1 c2 c3 us-east eu-west ap-south"

# running NAME: whether the process of that name is alive and still the one that
# was started (a pid file outlives a reboot, a pid does not).
running() {
	[ -s "$run/$1.pid" ] || return 1
	pid=$(cat "$run/$1.pid")
	kill -0 "$pid" 2>/dev/null || return 1
	case "$(arguments "$pid")" in
	*redis-server* | *coordinator* | *regional*) return 0 ;;
	esac
	return 1
}

# arguments PID: the command line; a small Debian has no ps, macOS no /proc.
arguments() {
	if [ -r "/proc/$1/cmdline" ]; then
		tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" || true # it may end meanwhile
	else
		ps -o args= -p "$1" 2>/dev/null
	fi
}

# start NAME COMMAND...: in a session of its own, with its output in a log file, so
# that nothing of the caller's stays open. It returns once the command runs under its
# own name, or has ended: on a busy machine the new process is this script for a while.
start() {
	name=$1
	shift
	if command -v setsid >/dev/null 2>&1; then
		setsid "$@" >>"$run/$name.log" 2>&1 </dev/null &
	else
		nohup "$@" >>"$run/$name.log" 2>&1 </dev/null &
	fi
	echo $! >"$run/$name.pid"
	tries=1000 # of 0.01 s
	until running "$name" || ! kill -0 $! 2>/dev/null || [ $tries -eq 0 ]; do
		tries=$((tries - 1))
		sleep 0.01
	done
}

# stop NAME...: SIGTERM, one after the other; returns when they have ended.
stop() {
	for name in "$@"; do
		kill -TERM "$(cat "$run/$name.pid")"
		while running "$name"; do sleep 0.1; done
	done
}

stop_all() {
	stopped=""
	for name in $processes; do stopped="$name $stopped"; done
	for name in $stopped; do
		if running "$name"; then kill -TERM "$(cat "$run/$name.pid")" 2>/dev/null || true; fi
	done
	tries=50 # of 0.1 s
	for name in $stopped; do
		while running "$name" && [ $tries -gt 0 ]; do
			tries=$((tries - 1))
			sleep 0.1
		done
		if running "$name"; then kill -KILL "$(cat "$run/$name.pid")" 2>/dev/null || true; fi
	done
}
