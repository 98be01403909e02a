package deploycheck

import (
	"fmt"
	"slices"
	"testing"
)

// TestDeployments builds the programs as the image does and runs each deployment with
// its own command lines, environment and files, every host name and port translated
// to this machine: each region gets a lease, decides by the first rules in its own
// Redis, every health check passes, and SIGTERM ends all of it in time.
func TestDeployments(t *testing.T) {
	b := buildImages(t)
	for _, target := range []string{"coordinator", "regional", "cli"} {
		im, files := b.image(t, target)
		checkProgram(t, files[im.entrypoint[0]])
	}
	for name, deployment := range map[string]func(*testing.T, built) (*network, []*container){
		"compose":    composeContainers,
		"kubernetes": kubernetesContainers,
		"systemd":    systemdContainers,
	} {
		t.Run(name, func(t *testing.T) {
			n, containers := deployment(t, b)
			f := launch(t, n, containers)
			if len(f.of("coordinator")) == 0 || len(f.of("regional")) == 0 {
				t.Fatal("a deployment needs coordinators and a region")
			}
			f.awaitLeases(t)
			for _, p := range f.of("regional") {
				f.eventually(t, "check at "+p.name, func() error { return decides(f.at(p, "7500", "/aliquot.v1.LimiterService/Check")) })
			}
			members, regions := len(f.of("coordinator")), len(f.of("regional"))
			for _, p := range f.of("coordinator") {
				f.eventually(t, "status of "+p.name, func() error {
					return agrees(f.at(p, "7400", "/aliquot.v1.ClusterService/GetStatus"), members, regions)
				})
			}
			f.healthy(t)
			f.stop(t)
		})
	}
}

// decides: the first rules are in force and the region's Redis counts.
func decides(url string) error {
	var answer struct {
		Allowed      bool
		RuleID, Mode string
	}
	err := call(url, `{"attributes":{"api_key":"sk_1"}}`, &answer)
	if err == nil && (!answer.Allowed || answer.RuleID != "per-key" || answer.Mode != "store") {
		return fmt.Errorf("answered %+v, want allowed by per-key in the store", answer)
	}
	return err
}

// agrees: the coordinators are one cluster of voters, and know the regions.
func agrees(url string, members, regions int) error {
	var status struct {
		LeaderID string
		Members  []struct{ NodeID, Suffrage string }
		Regions  []struct{ Name string }
	}
	if err := call(url, `{}`, &status); err != nil {
		return err
	}
	voters := slices.DeleteFunc(status.Members, func(m struct{ NodeID, Suffrage string }) bool { return m.Suffrage != "voter" })
	if status.LeaderID == "" || len(voters) != members || len(status.Regions) != regions {
		return fmt.Errorf("it says %+v; want a leader, %d voters, %d regions", status, members, regions)
	}
	return nil
}
