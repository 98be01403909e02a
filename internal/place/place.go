// Package place decides whether a regional daemon that was stopped finds its place when it comes back.
//
// A daemon that stops has a place kept under a random token. Any daemon of the region that says Hello ends
// that: it takes the place if it names the token, and otherwise the place is gone. So a daemon that has its
// place knows that no other one has been heard meanwhile. The coordinators replicate places.
//
// Worked example: daemon a stops and has a place kept under 7. Its next run, of incarnation 3, names 7 and
// has the place, as often as it asks. A run of incarnation 4 names 7 too late: the place is gone.
package place

// Place is the place of one region. The zero value is no place.
type Place struct {
	// Token is the number that the daemon chose when it stopped.
	Token uint64
	// TakenBy is the incarnation that has named the token; 0: none has yet.
	TakenBy uint64
}

// AfterHello returns what a Hello of an incarnation makes of the place. token is the one that it names; 0:
// none.
func (p Place) AfterHello(token, incarnation uint64) Place {
	if p.Token == token && token != 0 && (p.TakenBy == 0 || p.TakenBy == incarnation) {
		return Place{Token: token, TakenBy: incarnation}
	}
	return Place{}
}

// HeldBy reports whether an incarnation that names a token has the place.
func (p Place) HeldBy(token, incarnation uint64) bool {
	return token != 0 && incarnation != 0 && p == Place{Token: token, TakenBy: incarnation}
}
