package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	clusterstate "aliquot/cluster/state"
	"aliquot/internal/config"
	"aliquot/internal/rpc"
	"aliquot/internal/snapshot"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// errNotRestorable is wrapped by the refusals of a sound file that would not be safe to restore here.
var errNotRestorable = errors.New("this snapshot cannot be restored")

// SaveSnapshot streams the rules and entries that are applied here.
func (s *clusterService) SaveSnapshot(ctx context.Context, _ *aliquotv1.SaveSnapshotRequest, stream *connect.ServerStream[aliquotv1.SaveSnapshotResponse]) error {
	if err := rpc.EnterAnswer(ctx, snapshot.MaxBytes); err != nil {
		return err
	}
	shot := s.snapshot()
	if shot.GetClusterId() == "" {
		return connect.NewError(connect.CodeUnavailable, errors.New("this coordinator is not a member of a cluster yet"))
	}
	file, err := snapshot.Encode(shot)
	if err != nil {
		return toRPC(err)
	}
	for part := range slices.Chunk(file, snapshot.PartBytes) {
		if err := stream.Send(&aliquotv1.SaveSnapshotResponse{Data: part}); err != nil {
			return err
		}
	}
	return nil
}

// snapshot returns what is applied here.
func (s *clusterService) snapshot() *aliquotv1.Snapshot {
	status := s.node.Status()
	shot := &aliquotv1.Snapshot{
		ClusterId: status.ClusterID, NodeId: status.NodeID, Version: config.Version(), TakenUnixMs: time.Now().UnixMilli(), Regions: s.regions.declared(),
	}
	s.node.View(func(state *clusterstate.State) {
		r := &state.Rules
		shot.AppliedIndex, shot.Epoch, shot.HotKeys = state.AppliedIndex, state.Ledger.Epoch, int64(state.Ledger.Len())
		shot.Timing = timingToWire(&state.Ledger.Config)
		shot.RulesVersion, shot.RulesYaml, shot.RulesAuthor, shot.RulesComment, shot.RulesUnixMs = r.Version, r.YAML, r.Author, r.Comment, r.UnixMS
		if r.Set != nil {
			shot.Entries = entriesToWire(r.Entries)
		}
	})
	return shot
}

// RestoreSnapshot puts the rules and entries of a file in force, by the same commands as ApplyRules and EditRules. So
// the ledger, epochs and floors never go back, and nothing that was handed out since is handed out twice.
func (s *clusterService) RestoreSnapshot(ctx context.Context, stream *connect.ClientStream[aliquotv1.RestoreSnapshotRequest]) (*aliquotv1.RestoreSnapshotResponse, error) {
	var file []byte
	var author, comment string
	for first := true; stream.Receive(); first = false {
		if first {
			author, comment = stream.Msg().GetAuthor(), stream.Msg().GetComment()
		}
		if len(file)+len(stream.Msg().GetData()) > snapshot.MaxBytes {
			return nil, toRPC(invalid("the file has more than %d bytes", snapshot.MaxBytes))
		}
		file = append(file, stream.Msg().GetData()...)
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	shot, err := snapshot.Decode(file)
	if err != nil {
		return nil, toRPC(invalid("%v", err))
	}
	res, err := s.restore(ctx, shot, author, comment)
	return res, toRPC(err)
}

// restore restores a snapshot whose bytes are sound.
func (s *clusterService) restore(ctx context.Context, shot *aliquotv1.Snapshot, author, comment string) (*aliquotv1.RestoreSnapshotResponse, error) {
	if err := checkWords(author, comment); err != nil {
		return nil, err
	}
	if here := s.node.Status().ClusterID; shot.GetClusterId() != here {
		return nil, fmt.Errorf("%w: it is of cluster %s, and this is cluster %s. Into another cluster its rules and entries go by themselves: "+
			"`aliquot snapshot inspect FILE --rules rules.yaml --entries entries.yaml`, then `aliquot rules apply` and `aliquot entries import`",
			errNotRestorable, shorten(shot.GetClusterId()), here)
	}
	if shot.GetRulesVersion() == 0 {
		return nil, fmt.Errorf("%w: there were no rules when it was saved, so every request would pass", errNotRestorable)
	}
	var version uint64
	var same bool
	var rollout *clusterstate.Rollout
	s.node.View(func(state *clusterstate.State) {
		version, same = state.Rules.Version, state.Rules.YAML == shot.GetRulesYaml()
		rollout = state.Rules.Rollout
	})
	if rollout.UnderWay() {
		return nil, fmt.Errorf("%w: version %d of the rules is staged; promote or abort it first", errNotRestorable, rollout.Version)
	}
	if comment == "" {
		comment = fmt.Sprintf("restored from a snapshot of version %d, saved at %s", shot.GetRulesVersion(), time.UnixMilli(shot.GetTakenUnixMs()).UTC().Format(time.RFC3339))
	}
	out := &aliquotv1.RestoreSnapshotResponse{NotRestored: s.differences(shot)}
	if !same {
		applied, err := s.rules.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{
			Yaml: shot.GetRulesYaml(), ExpectedVersion: &version, FileName: "snapshot", AllowDenyAll: true, Author: author, Comment: comment,
		})
		if err != nil {
			return nil, err
		}
		version, out.Warnings = applied.GetVersion(), applied.GetWarnings()
	}
	now := time.Now().UnixMilli()
	var put []*aliquotv1.Entry
	for _, e := range shot.GetEntries() {
		if e.GetUntilUnixMs() != 0 && e.GetUntilUnixMs() <= now {
			out.EntriesOver++
			continue
		}
		e.RuleIds, e.WithoutEffect = nil, "" // these are no part of a request
		put = append(put, e)
	}
	edited, err := s.rules.EditRules(ctx, &aliquotv1.EditRulesRequest{
		Edit:            &aliquotv1.EditRulesRequest_Entries{Entries: &aliquotv1.EntriesEdit{Put: put, Replace: true, WithoutEffect: true}},
		ExpectedVersion: &version, Author: author, Comment: comment,
	})
	if remote, failed := errors.AsType[*connect.Error](err); failed && !same {
		return nil, reworded(remote, fmt.Sprintf("the rules are restored as version %d; restore again for the entries, whose change ended with: %s", version, remote.Message()))
	} else if err != nil {
		return nil, err
	}
	out.RulesVersion, out.Entries = edited.GetVersion(), int32(len(put))
	out.Warnings = append(out.Warnings, edited.GetWarnings()...)
	return out, nil
}

// differences describes what differs between a snapshot and this cluster, and stays as it is here.
func (s *clusterService) differences(shot *aliquotv1.Snapshot) (out []string) {
	declared := s.regions.declared()
	here := map[string]*aliquotv1.Region{}
	for _, r := range declared {
		here[r.GetName()] = r
	}
	for _, was := range shot.GetRegions() {
		switch now := here[was.GetName()]; {
		case now == nil:
			out = append(out, fmt.Sprintf("region %s was declared and is not any more", was.GetName()))
		case now.GetStatus() != was.GetStatus() || now.GetWeight() != was.GetWeight():
			out = append(out, fmt.Sprintf("region %s was %s with weight %d, and is %s with weight %d", was.GetName(), was.GetStatus(), was.GetWeight(), now.GetStatus(), now.GetWeight()))
		}
		delete(here, was.GetName())
	}
	for _, r := range declared {
		if here[r.GetName()] != nil {
			out = append(out, fmt.Sprintf("region %s was not declared, and is now", r.GetName()))
		}
	}
	var timing *aliquotv1.Timing
	s.node.View(func(state *clusterstate.State) { timing = timingToWire(&state.Ledger.Config) })
	if was := shot.GetTiming(); was != nil && (was.GetLease().AsDuration() != timing.GetLease().AsDuration() || was.GetRho() != timing.GetRho()) {
		out = append(out, fmt.Sprintf("the lease was %v and rho %v, and they are %v and %v",
			was.GetLease().AsDuration(), was.GetRho(), timing.GetLease().AsDuration(), timing.GetRho()))
	}
	return out
}
