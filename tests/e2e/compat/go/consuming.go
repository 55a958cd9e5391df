package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a member owns is told by its callbacks, which come at any time.
type member struct {
	sync.Mutex
	client  *kgo.Client
	group   string
	owned   map[place]bool
	changes [][2]any
}

var (
	membersLock sync.Mutex
	members     = map[string]*member{}
)

func (m *member) note(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		m.Lock()
		defer m.Unlock()
		places := []place{}
		for topic, partitions := range parts {
			for _, partition := range partitions {
				places = append(places, place{topic, partition})
				if kind == "assigned" {
					m.owned[place{topic, partition}] = true
				} else {
					delete(m.owned, place{topic, partition})
				}
			}
		}
		m.changes = append(m.changes, [2]any{kind, places})
	}
}

func open(_ context.Context, asked question) (any, error) {
	how, one := asked.Settings, &member{owned: map[place]bool{}}
	start := kgo.NewOffset().AtStart()
	if how.Reset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{kgo.ConsumeResetOffset(start), kgo.FetchMaxWait(500 * time.Millisecond)}
	if how.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if how.RefreshMS > 0 {
		options = append(options, refreshing(how.RefreshMS)...)
	}
	if len(asked.Assign) > 0 {
		starts := map[string]map[int32]kgo.Offset{}
		for _, at := range asked.Assign {
			if starts[at.topic] == nil {
				starts[at.topic] = map[int32]kgo.Offset{}
			}
			starts[at.topic][at.partition] = start
		}
		options = append(options, kgo.ConsumePartitions(starts))
	} else {
		options = append(options, one.inGroup(asked)...)
	}
	client, err := connect(options...)
	if err != nil {
		return nil, err
	}
	one.client = client
	membersLock.Lock()
	defer membersLock.Unlock()
	name := fmt.Sprintf("consumer-%d", len(members))
	members[name] = one
	return name, nil
}

func (m *member) inGroup(asked question) []kgo.Opt {
	how := asked.Settings
	m.group = *asked.Group
	options := []kgo.Opt{
		kgo.ConsumerGroup(m.group), kgo.DisableAutoCommit(), kgo.ConsumeTopics(asked.Topics...),
		kgo.OnPartitionsAssigned(m.note("assigned")),
		kgo.OnPartitionsRevoked(m.note("revoked")), kgo.OnPartitionsLost(m.note("revoked")),
	}
	if asked.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*asked.Pattern))
	}
	if how.Instance != "" {
		options = append(options, kgo.InstanceID(how.Instance))
	}
	switch {
	case how.Protocol == "consumer":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	case how.Assignor == "cooperative":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	return options
}

func find(asked question) *member {
	membersLock.Lock()
	defer membersLock.Unlock()
	return members[asked.Consumer]
}

func poll(ctx context.Context, asked question) (any, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(asked.MS)*time.Millisecond)
	defer cancel()
	fetches := find(asked).client.PollRecords(limited, asked.Most)
	for _, one := range fetches.Errors() {
		if !errors.Is(one.Err, context.DeadlineExceeded) {
			return nil, one.Err
		}
	}
	found := []record{}
	fetches.EachRecord(func(r *kgo.Record) {
		ms := r.Timestamp.UnixMilli()
		one := record{
			Topic: r.Topic, Partition: &r.Partition, Offset: r.Offset, Key: text(r.Key),
			Value: text(r.Value), Timestamp: &ms, Headers: [][2]string{},
		}
		for _, header := range r.Headers {
			one.Headers = append(one.Headers, [2]string{header.Key, string(header.Value)})
		}
		found = append(found, one)
	})
	return found, nil
}

func assigned(_ context.Context, asked question) (any, error) {
	one := find(asked)
	one.Lock()
	defer one.Unlock()
	places := []place{}
	for at := range one.owned {
		places = append(places, at)
	}
	return places, nil
}

func changes(_ context.Context, asked question) (any, error) {
	one := find(asked)
	one.Lock()
	defer one.Unlock()
	return append([][2]any{}, one.changes...), nil
}

func seek(_ context.Context, asked question) (any, error) {
	where := kgo.EpochOffset{Epoch: -1, Offset: asked.Offset}
	find(asked).client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		asked.Topic: {asked.Partition: where},
	})
	return nil, nil
}

func pause(_ context.Context, asked question) (any, error) {
	find(asked).client.PauseFetchPartitions(map[string][]int32{asked.Topic: {asked.Partition}})
	return nil, nil
}

func resume(_ context.Context, asked question) (any, error) {
	find(asked).client.ResumeFetchPartitions(map[string][]int32{asked.Topic: {asked.Partition}})
	return nil, nil
}

func commit(ctx context.Context, asked question) (any, error) {
	// The metadata of a commit is set in its request.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for i := range request.Topics {
			for j := range request.Topics[i].Partitions {
				request.Topics[i].Partitions[j].Metadata = &asked.Metadata
			}
		}
		return nil
	})
	var failed error
	find(asked).client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{
		asked.Topic: {asked.Partition: {Epoch: -1, Offset: asked.Offset}},
	}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, done *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if done != nil {
			for _, topic := range done.Topics {
				for _, one := range topic.Partitions {
					failed = errors.Join(failed, errorOf(one.ErrorCode))
				}
			}
		}
	})
	return nil, failed
}

func committed(ctx context.Context, asked question) (any, error) {
	found, err := fetched(ctx, find(asked).group, asked)
	if found == nil {
		return nil, err
	}
	return []any{found.At, found.Metadata}, nil
}

func closeConsumer(_ context.Context, asked question) (any, error) {
	find(asked).client.Close()
	return nil, nil
}

func fetched(ctx context.Context, group string, asked question) (*kadm.OffsetResponse, error) {
	found, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	if one, is := found.Lookup(asked.Topic, asked.Partition); is && one.At >= 0 {
		return &one, one.Err
	}
	return nil, nil
}

func text(bytes []byte) *string {
	if bytes == nil {
		return nil
	}
	value := string(bytes)
	return &value
}
