// The stories of tests/e2e/clients, told by franz-go.
//
// One argument: the plan, as JSON. One line of JSON on standard output for every step.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type plan struct {
	Bootstrap string     `json:"bootstrap"`
	Prefix    string     `json:"prefix"`
	Codecs    []string   `json:"codecs"`
	Records   int        `json:"records"`
	Wave      int        `json:"wave"`
	Padding   string     `json:"padding"`
	Times     [][2]int64 `json:"times"`
	TargetMS  int64      `json:"target_ms"`
	PatienceS int64      `json:"patience_s"`
}

type fields map[string]any

var (
	the    plan
	codecs = map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
)

func main() {
	must(json.Unmarshal([]byte(os.Args[1]), &the))
	patience := time.Duration(the.PatienceS) * time.Second
	create(limited(patience))
	for _, codec := range the.Codecs {
		produce(limited(patience), codec, kgo.ProducerBatchCompression(codecs[codec]))
	}
	produce(limited(patience), "idempotent")
	group(patience)
	resume(limited(patience))
	times(limited(patience))
	say("done", fields{})
}

// ---------------------------------------------------------------------------- topics

func create(ctx context.Context) {
	client := connect()
	defer client.Close()
	admin := kadm.NewClient(client)
	names := []string{topic("codecs"), topic("group"), topic("times")}
	made, err := admin.CreateTopics(ctx, 3, 1, nil, names...)
	must(err)
	must(made.Error())
	found := map[string]int{}
	// Kafka says that a topic was created a little before its brokers know it.
	for len(found) < len(names) {
		topics, err := admin.ListTopics(ctx, names...)
		must(err)
		for name, about := range topics {
			if about.Err == nil {
				found[name] = len(about.Partitions)
			}
		}
	}
	say("created", fields{"topics": found})
}

// ---------------------------------------------------------------------------- producing

func produce(ctx context.Context, label string, more ...kgo.Opt) {
	client := connect(more...)
	defer client.Close()
	records := make([]*kgo.Record, the.Records)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: topic("codecs"), Key: fmt.Append(nil, i), Value: value(label, i),
		}
	}
	acked := [][3]int64{}
	must(client.ProduceSync(ctx, records...).FirstErr())
	for i, record := range records {
		acked = append(acked, [3]int64{int64(i), int64(record.Partition), record.Offset})
	}
	say("produced", fields{"label": label, "acked": acked})
}

func toPartitions(ctx context.Context, records []*kgo.Record) {
	client := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	must(client.ProduceSync(ctx, records...).FirstErr())
}

// ---------------------------------------------------------------------------- a group

// A member polls in its own goroutine; what it owns and saw is under the lock of its crew.
type member struct {
	client *kgo.Client
	owned  map[int32]bool
}

type crew struct {
	sync.Mutex
	members map[string]*member
	seen    [][4]any
}

func (c *crew) join(name string) {
	one := &member{owned: map[int32]bool{}}
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			c.Lock()
			defer c.Unlock()
			for _, partition := range parts[topic("group")] {
				if has {
					one.owned[partition] = true
				} else {
					delete(one.owned, partition)
				}
			}
		}
	}
	one.client = connect(
		kgo.ConsumerGroup(topic("group")), kgo.ConsumeTopics(topic("group")),
		kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	)
	c.Lock()
	c.members[name] = one
	c.Unlock()
	go func() {
		for {
			fetches := one.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			must(fetches.Err())
			c.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				c.seen = append(c.seen, [4]any{name, r.Partition, r.Offset, string(r.Value)})
			})
			c.Unlock()
		}
	}()
}

func (c *crew) leave(name string) {
	c.Lock()
	one := c.members[name]
	delete(c.members, name)
	c.Unlock()
	one.client.Close()
}

func (c *crew) await(ctx context.Context, what string, there func() bool) {
	for {
		c.Lock()
		is := there()
		c.Unlock()
		if is {
			return
		}
		select {
		case <-ctx.Done():
			panic("waited too long for " + what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *crew) awaitOwners(ctx context.Context, when string) {
	owned := map[string][]int32{}
	c.await(ctx, "owners", func() bool {
		all := []int32{}
		for name, one := range c.members {
			owned[name] = []int32{}
			for partition := range one.owned {
				owned[name] = append(owned[name], partition)
			}
			slices.Sort(owned[name])
			all = append(all, owned[name]...)
			if len(owned[name]) == 0 {
				return false
			}
		}
		slices.Sort(all)
		return slices.Equal(all, []int32{0, 1, 2})
	})
	say("owned", fields{"when": when, "owned": owned})
}

func (c *crew) wave(ctx context.Context, number int) {
	records := []*kgo.Record{}
	for partition := range int32(3) {
		for i := range the.Wave {
			records = append(records, &kgo.Record{
				Topic: topic("group"), Partition: partition,
				Value: value(fmt.Sprintf("wave%d", number), i),
			})
		}
	}
	toPartitions(ctx, records)
	c.await(ctx, "records of a wave", func() bool {
		return len(c.seen) >= 3*the.Wave*(number+1)
	})
	for _, one := range c.members {
		must(one.client.CommitUncommittedOffsets(ctx))
	}
}

func group(patience time.Duration) {
	c := &crew{members: map[string]*member{}, seen: [][4]any{}}
	for _, name := range []string{"a", "b", "c"} {
		c.join(name)
	}
	c.awaitOwners(limited(patience), "three")
	c.wave(limited(patience), 0)
	c.leave("c")
	c.awaitOwners(limited(patience), "two")
	c.wave(limited(patience), 1)
	c.join("d")
	c.awaitOwners(limited(patience), "three again")
	c.wave(limited(patience), 2)
	for _, name := range []string{"a", "b", "d"} {
		c.leave(name)
	}
	say("seen", fields{"records": c.seen})
}

// ---------------------------------------------------------------------------- resuming

func resume(ctx context.Context) {
	all := the.Records * (len(the.Codecs) + 1)
	first := read(ctx, all/2, true)
	say("resumed", fields{"first": first, "then": read(ctx, all-all/2, false)})
}

func read(ctx context.Context, count int, commit bool) [][3]any {
	client := connect(
		kgo.ConsumerGroup(topic("resume")), kgo.ConsumeTopics(topic("codecs")),
		kgo.DisableAutoCommit(),
	)
	defer client.Close()
	seen := [][3]any{}
	last := []*kgo.Record{}
	for len(seen) < count {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if len(seen) < count {
				seen = append(seen, [3]any{r.Partition, r.Offset, string(r.Value)})
				last = append(last, r)
			}
		})
	}
	if commit {
		must(client.CommitRecords(ctx, last...))
	}
	return seen
}

// ---------------------------------------------------------------------------- times

func times(ctx context.Context) {
	records := []*kgo.Record{}
	for i, time_ := range the.Times {
		records = append(records, &kgo.Record{
			Topic: topic("times"), Partition: int32(time_[0]),
			Timestamp: time.UnixMilli(time_[1]), Value: value("times", i),
		})
	}
	toPartitions(ctx, records)
	client := connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}))
	defer client.Close()
	listed, err := kadm.NewClient(client).ListOffsetsAfterMilli(ctx, the.TargetMS, topic("times"))
	must(err)
	must(listed.Error())
	offsets, starts := fields{}, map[int32]kgo.Offset{}
	listed.Each(func(found kadm.ListedOffset) {
		name := fmt.Sprint(found.Partition)
		offsets[name] = found.Offset
		if found.Timestamp >= 0 {
			starts[found.Partition] = kgo.NewOffset().At(found.Offset)
		} else {
			// franz-go puts the end of the partition where the answer was "no such record".
			offsets[name] = nil
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic("times"): starts})
	read := map[string][2]int64{}
	for len(read) < len(starts) {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			name := fmt.Sprint(r.Partition)
			if _, is := read[name]; !is {
				read[name] = [2]int64{r.Offset, r.Timestamp.UnixMilli()}
			}
		})
	}
	say("times", fields{"offsets": offsets, "read": read})
}

// ---------------------------------------------------------------------------- all of them

func connect(more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(strings.Split(the.Bootstrap, ",")...))...)
	must(err)
	return client
}

func topic(name string) string {
	return the.Prefix + "-" + name
}

func value(label string, number int) []byte {
	return fmt.Appendf(nil, "%s %d %s", label, number, the.Padding)
}

func limited(patience time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func say(step string, line fields) {
	line["step"] = step
	text, err := json.Marshal(line)
	must(err)
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
