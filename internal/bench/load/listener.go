package load

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"aliquot/internal/rpc"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// listener is the process of this machine that listens on an address, if it can be told:
// on Linux, of the same user. 0: unknown.
func listener(address string) int {
	inode := listenerSocket(address)
	if inode == "" {
		return 0
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == "socket:["+inode+"]" {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			return pid
		}
	}
	return 0
}

func listenerSocket(address string) (inode string) {
	if path, ok := rpc.UnixPath(address); ok {
		return findRow("/proc/net/unix", func(f []string) bool { return len(f) == 8 && f[7] == path }, 6)
	}
	_, text, err := net.SplitHostPort(hostOf(address))
	if err != nil {
		return ""
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return ""
	}
	listens := func(f []string) bool {
		return len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port))
	}
	if inode = findRow("/proc/net/tcp", listens, 9); inode == "" {
		inode = findRow("/proc/net/tcp6", listens, 9)
	}
	return inode
}

// findRow returns a column of the first row of a table that is the one.
func findRow(file string, is func([]string) bool, column int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); is(f) {
			return f[column]
		}
	}
	return ""
}
