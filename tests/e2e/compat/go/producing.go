package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	codecs = map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	producersLock sync.Mutex
	producers     = map[string]*kgo.Client{}
)

// It takes a partition that was set for one that was asked for only if all records have one.
func partitioner(records []record) kgo.Partitioner {
	for _, one := range records {
		if one.Partition == nil {
			return kgo.StickyKeyPartitioner(nil)
		}
	}
	return kgo.ManualPartitioner()
}

func producer(asked question) (*kgo.Client, error) {
	how := asked.Settings
	options := []kgo.Opt{
		kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(partitioner(asked.Records)),
	}
	switch how.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	if how.Codec != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[how.Codec]))
	}
	if how.BatchBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(how.BatchBytes))
	}
	if how.MaxBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(how.MaxBytes))
	}
	if how.RefreshMS > 0 {
		options = append(options, refreshing(how.RefreshMS)...)
	}
	return connect(options...)
}

func refreshing(ms int64) []kgo.Opt {
	age := time.Duration(ms) * time.Millisecond
	return []kgo.Opt{kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, 100*time.Millisecond))}
}

func produce(ctx context.Context, asked question) (any, error) {
	client, err := kept(asked)
	if err != nil {
		return nil, err
	}
	if asked.Keep == nil {
		defer client.Close()
	}
	records := make([]*kgo.Record, len(asked.Records))
	for i, one := range asked.Records {
		made := &kgo.Record{Topic: asked.Topic, Key: bytes(one.Key), Value: bytes(one.Value)}
		if one.Partition != nil {
			made.Partition = *one.Partition
		}
		if one.Timestamp != nil {
			made.Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, header := range one.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{
				Key: header[0], Value: []byte(header[1]),
			})
		}
		records[i] = made
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	places := make([]any, len(records))
	for i, one := range records {
		if asked.Settings.Acks != "0" {
			places[i] = []int64{int64(one.Partition), one.Offset}
		}
	}
	return places, nil
}

func kept(asked question) (*kgo.Client, error) {
	if asked.Keep == nil {
		return producer(asked)
	}
	producersLock.Lock()
	defer producersLock.Unlock()
	if client, is := producers[*asked.Keep]; is {
		return client, nil
	}
	client, err := producer(asked)
	producers[*asked.Keep] = client
	return client, err
}

func transact(ctx context.Context, asked question) (any, error) {
	client, err := connect(kgo.TransactionalID(asked.Name))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	for _, value := range asked.Values {
		sent := &kgo.Record{Topic: asked.Topic, Value: []byte(value)}
		if err := client.ProduceSync(ctx, sent).FirstErr(); err != nil {
			return nil, err
		}
	}
	return nil, client.EndTransaction(ctx, kgo.TransactionEndTry(asked.End == "commit"))
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}
