package store

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// structSource is struct.pack and struct.unpack of whole numbers, in Lua: every Redis has
// them, an emulated one has not.
//
//go:embed testdata/struct.lua
var structSource string

// withStruct gives the scripts of a client what structSource has. It knows none by its name,
// so that each is sent with its text.
type withStruct struct{}

func (withStruct) DialHook(next redis.DialHook) redis.DialHook { return next }

func (withStruct) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		extend(cmd)
		return next(ctx, cmd)
	}
}

func (withStruct) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			extend(cmd)
		}
		return next(ctx, cmds)
	}
}

func extend(cmd redis.Cmder) {
	if args := cmd.Args(); strings.EqualFold(fmt.Sprint(args[0]), "eval") {
		args[1] = structSource + args[1].(string)
	}
}
