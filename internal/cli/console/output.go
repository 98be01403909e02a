package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Print writes a message as --output says; table is called for the table.
func (g *Globals) Print(m proto.Message, table func(io.Writer)) error {
	if g.Output == "table" {
		table(g.Out)
		return nil
	}
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	return g.write(raw)
}

// PrintValue is print for what is not a protobuf message.
func (g *Globals) PrintValue(v any, table func(io.Writer)) error {
	if g.Output == "table" {
		table(g.Out)
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return g.write(raw)
}

// write prints one JSON document a line, or one YAML document.
func (g *Globals) write(raw []byte) error {
	if g.Output == "yaml" {
		text, err := yaml.JSONToYAML(raw)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(g.Out, "---\n%s", text)
		return err
	}
	var line bytes.Buffer // protojson pads at random
	if err := json.Compact(&line, raw); err != nil {
		return err
	}
	_, err := fmt.Fprintln(g.Out, line.String())
	return err
}

// Number prints at most four decimals.
func Number(f float64) string {
	return strconv.FormatFloat(float64(int64(f*10_000+.5))/10_000, 'f', -1, 64)
}

// Figure prints what is to be read at a glance: two decimals, four below one.
func Figure(f float64) string {
	if f < 1 {
		return Number(f)
	}
	return strconv.FormatFloat(float64(int64(f*100+.5))/100, 'f', -1, 64)
}

// Percent writes a part of 1 as a percentage with one decimal.
func Percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + "%" }

// Duration writes a duration to the millisecond; "-" for nil.
func Duration(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return d.AsDuration().Round(time.Millisecond).String()
}

// Instant writes a time of a coordinator's or a region's clock, in milliseconds since 1970, in UTC.
func Instant(unixMS int64) string { return time.UnixMilli(unixMS).UTC().Format(time.RFC3339) }

// OrDash returns s, or "-" for an empty text.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
