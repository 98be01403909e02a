package main

import (
	"strings"

	"aliquot/rules/document"
)

// rulesText describes the fields of the rules file.
func rulesText(string) (string, error) {
	var b strings.Builder
	b.WriteString(wrapped("[The rules file](../how-to/write-rules.md) explains them with examples. A duration is a number of seconds (`60`, `1.5`) or a text "+
		"with the units `ms`, `s`, `m`, `h` and `d` (`\"1h30m\"`).") + "\n\n")
	for _, s := range document.Sections() {
		name := s.Name
		if name == strings.ToLower(name) && !strings.Contains(name, " ") {
			name = code(name)
		}
		b.WriteString("## " + name + "\n\n" + wrapped(s.Where) + "\n\n")
		var rows [][]string
		for _, f := range s.Fields {
			rows = append(rows, []string{code(f.Name), f.Type, code(f.Default), f.Text})
		}
		b.WriteString(table([]string{"field", "value", "default", "meaning"}, rows))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}
