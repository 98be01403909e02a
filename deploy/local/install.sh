#!/bin/sh
# Installs what is named and missing: redis-server, prometheus, promtool, nginx, caddy, protoc, cc. Uses apt-get or
# brew, with sudo where needed; does nothing when all is there.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo "$@"
	else
		echo "not root and no sudo; as root, run: $*" >&2
		return 1
	fi
}

package() { # package COMMAND MANAGER: the package that has the command
	case "$1:$2" in
	redis-server:brew) echo redis ;;
	protoc:brew) echo protobuf ;;
	# Debian keeps the definitions that ours import in a package of their own.
	protoc:apt) echo protobuf-compiler libprotobuf-dev ;;
	promtool:apt | promtool:brew) echo prometheus ;;
	cc:apt) echo gcc libc6-dev ;;
	*) echo "$1" ;;
	esac
}

missing=""
for command in "$@"; do
	have "$command" || missing="$missing $command"
done
[ -n "$missing" ] || exit 0

if have apt-get; then
	packages=""
	for command in $missing; do packages="$packages $(package "$command" apt)"; done
	echo "installing$packages" >&2
	# A service that the package starts would hold the default port for nothing.
	as_root apt-get update -qq >&2
	as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $packages >&2
elif have brew; then
	for command in $missing; do
		if [ "$command" = cc ]; then
			echo "a C compiler is needed for the race detector: xcode-select --install" >&2
			exit 1
		fi
		brew install -q "$(package "$command" brew)" >&2
	done
else
	echo "missing:$missing; install it with your package manager and run this again" >&2
	exit 1
fi

for command in $missing; do
	have "$command" || { echo "$command is still missing after the installation" >&2; exit 1; }
done
