package source

import (
	"math/big"
	"strings"
)

// MaxNumberText is the length of the longest number that is read. A double has 17 digits.
const MaxNumberText = 64

// ParseDecimal reads a number exactly, never through a float. It accepts only what every YAML
// reader takes for the same number: no underscores, hexadecimal, octal or infinities. why is a
// reason for a message, or "".
func ParseDecimal(text string) (value *big.Rat, why string) {
	if len(text) > MaxNumberText {
		return nil, "this number is too long; write it with at most 64 characters"
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(text), "e")
	unsigned := strings.TrimPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	if whole+fraction == "" || !AllDigits(whole+fraction) || hasExponent && !isExponent(exponent) {
		return nil, "not a decimal number; write it like 100 or 1.67"
	}
	if len(whole) > 1 && whole[0] == '0' {
		return nil, "a number with a leading zero means octal to some readers; remove the zero"
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, "not a decimal number; write it like 100 or 1.67"
	}
	return value, ""
}

// AllDigits reports whether s has nothing but decimal digits; an empty text has none.
func AllDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isExponent accepts up to three digits, which bounds the size of the number.
func isExponent(s string) bool {
	s = strings.TrimLeft(s[:min(len(s), 1)], "+-") + s[min(len(s), 1):]
	return s != "" && len(s) <= 3 && AllDigits(s)
}
