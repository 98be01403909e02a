package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aliquot/internal/cli"
)

// cliText lists the commands.
func cliText(string) (string, error) {
	root := cli.Command(cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	var b strings.Builder
	b.WriteString("It exits with 0 if all is well, 1 for an error, 2 for a wrong command line and 3 for a denial.\n\n")
	b.WriteString(wrapped("With `--output json` an error is one object on standard error, "+
		"`{\"error\": {\"code\": ..., \"message\": ...}}`, with `--output yaml` the same. `code` is that of the daemon's answer "+
		"(`invalid_argument`, `unavailable`), `usage`, or `failed` for anything else. An error in a file has `file`, `line` and `column` of the first "+
		"problem, all of them in `problems`, and in `omitted` how many more there are.") + "\n\n")
	b.WriteString("Every command has these flags:\n\n" + block("", root.PersistentFlags().FlagUsages()))
	b.WriteString(wrapped("`aliquot completion bash` prints a script that completes commands, rules, regions and versions; `zsh`, `fish` and `powershell` have one too.") + "\n\n")
	groups := root.Groups()
	for _, g := range groups {
		b.WriteString("## " + strings.TrimSuffix(g.Title, ":") + "\n\n")
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				if err := commandText(&b, c); err != nil {
					return "", err
				}
			}
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// commandText writes a command, then those below it.
func commandText(b *strings.Builder, c *cobra.Command) error {
	if !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion" {
		return nil
	}
	about := c.Long
	if about == "" {
		about = c.Short
	}
	fmt.Fprintf(b, "### %s\n\n", c.CommandPath())
	for paragraph := range strings.SplitSeq(about, "\n\n") {
		b.WriteString(described(paragraph))
	}
	if !c.HasSubCommands() {
		line := strings.TrimSpace(strings.TrimSuffix(c.UseLine(), "[flags]"))
		if c.LocalNonPersistentFlags().HasFlags() {
			line += " [flags]"
		}
		b.WriteString(block("", line+"\n\n"+c.LocalNonPersistentFlags().FlagUsages()))
		if c.Example == "" {
			return fmt.Errorf("%s has no example", c.CommandPath())
		}
		b.WriteString("For example:\n\n" + block("", unindented(c.Example)))
	}
	for _, sub := range c.Commands() {
		if err := commandText(b, sub); err != nil {
			return err
		}
	}
	return nil
}

// described writes a paragraph of a help text. Lines that are indented are code.
func described(paragraph string) string {
	if strings.HasPrefix(paragraph, " ") {
		return block("", unindented(paragraph))
	}
	return wrapped(sentence(paragraph)) + "\n\n"
}

// unindented takes the two spaces off that begin the lines of a help text.
func unindented(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}
