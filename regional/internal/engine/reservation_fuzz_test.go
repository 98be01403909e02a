package engine

import (
	"encoding/json"
	"testing"

	"aliquot/lua"
)

// FuzzReservation: a reservation that is damaged in the store in any way is refused, or answered as it is read; it
// ends no daemon.
func FuzzReservation(f *testing.F) {
	const limits = `{"f":"x","t":60000000,"i":5,"l":[{"r":"r1","n":7,"h":"AAAAAAAAAAAAAAAAAAAAAA","c":100000000,"e":1,"u":"requests","k":1000000},` +
		`{"r":"r2","s":true,"n":8,"h":"AAAAAAAAAAAAAAAAAAAAAA","a":3,"c":5,"w":60000000000,"u":"tokens_in","k":1,"b":{"a":1,"w":true,"o":{}}}]}`
	for _, text := range []string{
		"00000000 1\n{}", "00000000 1\nnull", "00000000 1 1 99000000 100000000 1 0 0\n" + limits,
		"00000000 1 1 99000000 100000000 1 0 0\n" + limits + "\n2 0 0 0 0 0\n[{\"u\":1,\"p\":true},{\"u\":3}]", "00000000 1\n" + `{"m":"no_rule"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kept, err := lua.ParseKept(text)
		if err != nil {
			return
		}
		r, err := parseReservation(kept)
		if err != nil {
			return
		}
		_, _ = r.decided(kept)
		_, _ = r.charged(kept)
		out := SettledResult{State: StateAlready, reservation: r, adjusted: kept.Adjusted}
		if json.Unmarshal([]byte(kept.Note), &out.notes) == nil {
			out.Parts()
		}
		notes := make([]settledLimit, len(r.Limits))
		for i := range r.Limits {
			notes[i] = settledLimit{Used: r.Limits[i].used(Usage{}), Part: true}
			_, _ = r.Limits[i].toCharge()
		}
		r.charges(notes, kept.At)
	})
}
