package recall

import (
	"testing"

	"aliquot/limit"
)

// loan is a call for one token that wants to borrow, of a key of which the store then had 100 left.
type loan struct {
	t      *testing.T
	table  *Table
	ticket Ticket
	carry  Debt
}

// wants is the view of such a call.
var wants = limit.ChunkView{Want: 29 * limit.Token, Least: limit.Token, Life: 100_000}

// asks sends the call at hour, when the key owes what requests before it were admitted for.
func asks(t *testing.T, owed int) *loan {
	l := &loan{t: t, table: New(10, 0)}
	answered(l.table, bucket, 1, 100, hour)
	l.admits(owed)
	c := l.charge()
	l.carry = l.table.Carry(&c, l.table.Call(), hour)
	l.table.Sent(&l.ticket, &c, hour)
	return l
}

func (l *loan) charge() Charge {
	c := charge(bucket, 1, 1, hour)
	c.Borrows = true
	return c
}

// admits has requests for one token admitted by the table.
func (l *loan) admits(n int) {
	l.t.Helper()
	for i := range n {
		if c := charge(bucket, 1, 1, hour); !l.table.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1)) {
			l.t.Fatalf("request %d of %d is denied", i, n)
		}
	}
}

// pays has another call leave that carries what is owed, and returns what it is.
func (l *loan) pays() Debt {
	c := charge(bucket, 1, 0, hour)
	return l.table.Carry(&c, l.table.Call(), hour)
}

// brings answers the call: it left so many tokens in the store, and lent 29 of the others. It returns what
// of them may be spent.
func (l *loan) brings(left int) int {
	out, c := limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: limit.Bucket{Cap: bucket.Capacity, Rate: bucket.Rate}, Lent: 29 * limit.Token, LentFor: 100_000}, l.charge()
	stamp := int64(hour)/1000 + 1
	l.table.Answered(&l.ticket, &c, true, out, l.carry, stamp, hour)
	if spent := l.table.Borrowed(&l.ticket, &c, &wants, &out, stamp, hour); spent+out.Lent != 29*limit.Token {
		l.t.Errorf("%d are spent and %d may be, want 29 in all, which the store has lent", spent/limit.Token, out.Lent/limit.Token)
	}
	return int(out.Lent / limit.Token)
}

// knows checks what is left and what is owed.
func (l *loan) knows(left, owed int) {
	l.t.Helper()
	c := charge(bucket, 1, 1, hour)
	if got := int(l.table.find(&c, hour).left / limit.Token); got != left {
		l.t.Errorf("%d left, want %d", got, left)
	}
	if got := int(l.table.Owed(c.Key, hour) / limit.Token); got != owed {
		l.t.Errorf("%d owed, want %d", got, owed)
	}
}

// TestWhatIsAdmittedMeanwhileComesOutOfTheLoan: a loan on its way is not charged, so that no request waits for
// it. So the loan pays for what is admitted here in the meantime, and only its rest may be spent.
func TestWhatIsAdmittedMeanwhileComesOutOfTheLoan(t *testing.T) {
	for _, is := range []struct{ meanwhile, lent, left, owed int }{{0, 29, 30, 0}, {9, 20, 30, 0}, {29, 0, 30, 0}, {50, 0, 9, 21}, {59, 0, 0, 30}} {
		l := asks(t, 40) // of 100, and the call takes one
		l.admits(is.meanwhile)
		if lent := l.brings(30); lent != is.lent {
			t.Errorf("%d admitted meanwhile: %d of the loan may be spent, want %d", is.meanwhile, lent, is.lent)
		}
		l.knows(is.left, is.owed)
	}
}

// TestADebtThatAnotherCallCarriesIsNotPaidByALoan: the store may take it off the record too. Then the loan is
// lost, and not spent beside it.
func TestADebtThatAnotherCallCarriesIsNotPaidByALoan(t *testing.T) {
	l := asks(t, 0)
	l.admits(20)
	carried := l.pays()
	if lent := l.brings(70); lent != 9 {
		t.Errorf("%d of the loan may be spent, want 9", lent)
	}
	l.knows(50, 20)
	l.table.Paid(keyOf(1), carried, true)
	l.knows(50, 0)
	l = asks(t, 0)
	l.admits(99)
	l.table.Paid(keyOf(1), l.pays(), true)
	if lent := l.brings(0); lent != 0 {
		t.Errorf("%d may be spent of a loan that came after its debt was paid, want none", lent)
	}
}

// TestAnOwnCallersAdmissionIsNoPartOfTheLoan: the store has charged the call whose caller was admitted here, so
// the loan is whole. What another caller was admitted for and the store charges later is paid once.
func TestAnOwnCallersAdmissionIsNoPartOfTheLoan(t *testing.T) {
	l := asks(t, 0)
	c := l.charge()
	c.Own = &l.ticket
	l.table.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1))
	if lent := l.brings(70); lent != 29 {
		t.Errorf("%d of the loan may be spent, want 29", lent)
	}
	l.knows(70, 0)

	l = asks(t, 0)
	var other Ticket
	c = charge(bucket, 1, 1, hour)
	l.table.Sent(&other, &c, hour)
	c.Own = &other
	l.table.Decide([]Charge{c}, false, hour, make([]limit.Outcome, 1))
	l.admits(40)
	if lent := l.brings(70); lent != 0 {
		t.Errorf("%d of the loan may be spent, want none", lent)
	}
	l.knows(58, 12)
	l.table.Answered(&other, &c, true, limit.Outcome{Tokens: 69 * limit.Token, Bucket: c.Bucket}, Debt{}, int64(hour)/1000+2, hour)
	l.knows(57, 12)
}

// TestALoanOfOtherContentsIsVoid as is one of a call that was answered or given up before.
func TestALoanOfOtherContentsIsVoid(t *testing.T) {
	l := asks(t, 0)
	if l.table.Void(hour); l.brings(70) != 0 {
		t.Error("a loan of contents that the store has lost may be spent")
	}
	l = asks(t, 0)
	c := l.charge()
	if l.table.Lost(&l.ticket, &c, hour); l.brings(70) != 0 {
		t.Error("the loan of a call that was given up may be spent")
	}
}

// TestAKeyThatStartsAnewGainsNothing: its share changes, so it counts as empty. A loan that pays for earlier
// admissions adds nothing to that.
func TestAKeyThatStartsAnewGainsNothing(t *testing.T) {
	l := asks(t, 0)
	l.admits(99)
	later, c := Ticket{}, charge(bucket, 1, 0, hour)
	l.table.Sent(&later, &c, hour)
	l.table.Answered(&later, &c, true, limit.Outcome{Tokens: 70 * limit.Token, Bucket: c.Bucket}, Debt{}, int64(hour)/1000+5, hour)
	l.table.Forget(keyOf(1), hour+1)
	l.brings(70)
	if n := burst(l.table, bucket, 1, hour+1); n != 0 {
		t.Errorf("%d admitted of a key that counts as empty", n)
	}
}
