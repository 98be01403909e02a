package main

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frontDoor is the part of the page that no .proto file has.
//
//go:embed frontdoor.txt
var frontDoor string

// between is the file of the service that the daemons themselves use.
const between = "aliquot/v1/lease.proto"

// apiText lists the services, and the messages by the file that declares them. Every declaration has a
// comment, or the page would say nothing of it.
func apiText(root string) (string, error) {
	names, err := filepath.Glob(filepath.Join(root, "proto/aliquot/v1/*.proto"))
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("%d .proto files: %w", len(names), err)
	}
	for i := range names {
		names[i] = "aliquot/v1/" + filepath.Base(names[i])
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == between })
	// The calls of a client to a region come first.
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(place(a), place(b)) })
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return "", err
	}
	a := apiPage{}
	a.WriteString(frontDoor + "\n")
	for _, f := range files {
		for i := range f.Services().Len() {
			a.service(f, f.Services().Get(i))
		}
		for i := range f.Messages().Len() {
			a.message(f, f.Messages().Get(i))
		}
	}
	if len(a.silent) > 0 {
		return "", fmt.Errorf("without a comment: %s", strings.Join(a.silent, ", "))
	}
	return strings.TrimRight(a.String(), "\n") + "\n", nil
}

// apiPage is the page as far as it is written. silent are declarations without a comment.
type apiPage struct {
	strings.Builder
	silent []string
}

// place orders the files.
func place(file string) string {
	if strings.HasSuffix(file, "/limiter.proto") {
		return ""
	}
	return file
}

// comment returns what a .proto file says of a declaration, as one paragraph.
func (a *apiPage) comment(f linker.File, d protoreflect.Descriptor) string {
	at := f.SourceLocations().ByDescriptor(d)
	text := strings.Join(strings.Fields(at.LeadingComments+" "+at.TrailingComments), " ")
	if text == "" {
		a.silent = append(a.silent, string(d.FullName()))
	}
	return text
}

func (a *apiPage) service(f linker.File, s protoreflect.ServiceDescriptor) {
	fmt.Fprintf(a, "## %s\n\n", s.Name())
	a.WriteString(paragraph(a.comment(f, s)))
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		fmt.Fprintf(a, "### %s.%s\n\n%s", s.Name(), m.Name(), paragraph(a.comment(f, m)))
		call := fmt.Sprintf("`rpc %s(%s) returns (%s)`", m.Name(), streamed(m.IsStreamingClient(), m.Input()), streamed(m.IsStreamingServer(), m.Output()))
		if !m.IsStreamingClient() && !m.IsStreamingServer() {
			call += fmt.Sprintf(", as JSON `POST /%s/%s`", s.FullName(), m.Name())
		}
		fmt.Fprintf(a, "%s\n\n", wrapped(fmt.Sprintf("%s: %s, %s.", call, linked(m.Input()), linked(m.Output()))))
	}
}

func streamed(stream bool, m protoreflect.MessageDescriptor) string {
	if stream {
		return "stream " + string(m.Name())
	}
	return string(m.Name())
}

func (a *apiPage) message(f linker.File, m protoreflect.MessageDescriptor) {
	fmt.Fprintf(a, "### %s\n\n%s", m.Name(), paragraph(a.comment(f, m)))
	if m.Fields().Len() == 0 {
		a.WriteString("It has no fields.\n\n")
		return
	}
	var rows [][]string
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		meaning := a.comment(f, field)
		if of := field.ContainingOneof(); of != nil && !of.IsSynthetic() {
			meaning = strings.TrimSpace(fmt.Sprintf("One of `%s`. %s", of.Name(), meaning))
		}
		rows = append(rows, []string{code(string(field.Name())), fmt.Sprint(field.Number()), kindOf(field), meaning})
	}
	a.WriteString(table([]string{"field", "number", "type", "meaning"}, rows))
	for i := range m.Messages().Len() {
		if nested := m.Messages().Get(i); !nested.IsMapEntry() {
			a.message(f, nested)
		}
	}
}

// kindOf is the type of a field, with a link to the message.
func kindOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", f.MapKey().Kind(), kindOf(f.MapValue()))
	case f.IsList():
		return "list of " + single(f)
	case f.HasOptionalKeyword():
		return "optional " + single(f)
	}
	return single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return linked(f.Message())
	case protoreflect.EnumKind:
		return string(f.Enum().Name())
	}
	return f.Kind().String()
}

// linked names a message, with a link if this page has it.
func linked(m protoreflect.MessageDescriptor) string {
	if m.ParentFile().Package() != "aliquot.v1" {
		return code(string(m.FullName()))
	}
	return fmt.Sprintf("[%s](#%s)", m.Name(), strings.ToLower(string(m.Name())))
}

func paragraph(text string) string { return wrapped(text) + "\n\n" }
