package main

import (
	"context"
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kadm"
)

func topics(ctx context.Context, _ question) (any, error) {
	found, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for name, about := range found {
		if about.Err == nil {
			counts[name] = len(about.Partitions)
		}
	}
	return counts, nil
}

func createTopic(ctx context.Context, asked question) (any, error) {
	configs := map[string]*string{}
	for name, value := range asked.Configs {
		configs[name] = &value
	}
	_, err := admin.CreateTopic(ctx, asked.Partitions, 1, configs, asked.Topic)
	return nil, err
}

func deleteTopic(ctx context.Context, asked question) (any, error) {
	_, err := admin.DeleteTopic(ctx, asked.Topic)
	return nil, err
}

func createPartitions(ctx context.Context, asked question) (any, error) {
	done, err := admin.UpdatePartitions(ctx, asked.Count, asked.Topic)
	if err != nil {
		return nil, err
	}
	return nil, done.Error()
}

func describeConfigs(ctx context.Context, asked question) (any, error) {
	found, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, one := range found {
		if one.Err != nil {
			return nil, one.Err
		}
		for _, config := range one.Configs {
			configs[config.Key] = config.MaybeValue()
		}
	}
	return configs, nil
}

func alterConfigs(ctx context.Context, asked question) (any, error) {
	changes := []kadm.AlterConfig{}
	for name, value := range asked.Set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range asked.Delete {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	return altered(admin.AlterTopicConfigs(ctx, changes, asked.Topic))
}

func alterConfigsOlder(ctx context.Context, asked question) (any, error) {
	all := []kadm.AlterConfig{}
	for name, value := range asked.Configs {
		all = append(all, kadm.AlterConfig{Name: name, Value: &value})
	}
	return altered(admin.AlterTopicConfigsState(ctx, all, asked.Topic))
}

func altered(done kadm.AlterConfigsResponses, err error) (any, error) {
	for _, one := range done {
		if one.Err != nil {
			return nil, one.Err
		}
	}
	return nil, err
}

func deleteRecords(ctx context.Context, asked question) (any, error) {
	before := kadm.Offsets{}
	before.AddOffset(asked.Topic, asked.Partition, asked.Before, -1)
	done, err := admin.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	return nil, done.Error()
}

func describeCluster(ctx context.Context, _ question) (any, error) {
	found, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	brokers := [][]any{}
	for _, one := range found.Brokers {
		brokers = append(brokers, []any{one.NodeID, one.Host, one.Port})
	}
	return fields{
		"brokers": brokers, "controller": found.Controller, "cluster": found.Cluster,
	}, nil
}

func describeLogDirs(ctx context.Context, asked question) (any, error) {
	wanted := kadm.TopicsSet{}
	wanted.Add(asked.Topic, 0)
	found, err := admin.DescribeAllLogDirs(ctx, wanted)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	found.Each(func(folder kadm.DescribedLogDir) {
		folder.Topics.Each(func(one kadm.DescribedLogDirPartition) {
			total += one.Size
		})
		if folder.Err != nil {
			err = folder.Err
		}
	})
	return total, err
}

func offsets(ctx context.Context, asked question) (any, error) {
	var found kadm.ListedOffsets
	var err error
	switch at := string(asked.At); at {
	case `"earliest"`:
		found, err = admin.ListStartOffsets(ctx, asked.Topic)
	case `"latest"`:
		found, err = admin.ListEndOffsets(ctx, asked.Topic)
	default:
		var ms int64
		if err := json.Unmarshal(asked.At, &ms); err != nil {
			return nil, err
		}
		found, err = admin.ListOffsetsAfterMilli(ctx, ms, asked.Topic)
	}
	if err != nil {
		return nil, err
	}
	one, _ := found.Lookup(asked.Topic, asked.Partition)
	return one.Offset, one.Err
}
