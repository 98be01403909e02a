package regional

import (
	"testing"
	"time"

	"aliquot/internal/prefetch"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestAClientThatIsShutOutTakesNoPlace of the denials that are remembered but one in each
// tenth of a second, and its denials can be explained all the same.
func TestAClientThatIsShutOutTakesNoPlace(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, watchedRules+"blacklist: [\"bad\"]\n").address()))
		burst(t, d, "rude")
		for range 6 {
			deny(t, d, "rude")
		}
		ids := map[string]map[string]bool{"bad": {}, "rude": {}}
		began := time.Now()
		for apiKey, seen := range ids {
			for range 1000 {
				out, err := d.service.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": apiKey}})
				if err != nil || out.GetAllowed() || out.GetDecisionId() == "" {
					t.Fatalf("%s: %v, %v", apiKey, out, err)
				}
				seen[out.GetDecisionId()] = true
			}
			most := 2 + int(time.Since(began)/prefetch.Life)
			if len(seen) > most {
				t.Errorf("%s: 1000 denials have %d names, at most %d", apiKey, len(seen), most)
			}
			for id := range seen {
				if request, known := d.answers.Denied(id); !known || request.Attributes.Get("api_key") != apiKey {
					t.Errorf("%s: denial %s is not known", apiKey, id)
				}
			}
		}
	})
}
