package boottime

import (
	"os"
	"strings"
)

// Boot identifies the time since which Now counts: another value after each boot. It is empty if the system does not
// say.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
