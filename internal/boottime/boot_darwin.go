package boottime

import "golang.org/x/sys/unix"

// Boot identifies the time since which Now counts: another value after each boot. It is empty if the system does not
// say.
func Boot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
