package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func errorOf(code int16) error {
	return kerr.ErrorForCode(code)
}

func groupOffset(ctx context.Context, asked question) (any, error) {
	found, err := fetched(ctx, *asked.Group, asked)
	if found == nil {
		return nil, err
	}
	return found.At, nil
}

func listGroups(ctx context.Context, _ question) (any, error) {
	found, err := admin.ListGroups(ctx)
	return found.Groups(), err
}

func describeGroup(ctx context.Context, asked question) (any, error) {
	found, err := admin.DescribeGroups(ctx, *asked.Group)
	if err != nil {
		return nil, err
	}
	one := found[*asked.Group]
	members := [][]place{}
	for _, member := range one.Members {
		places := []place{}
		if about, is := member.Assigned.AsConsumer(); is {
			for _, topic := range about.Topics {
				for _, partition := range topic.Partitions {
					places = append(places, place{topic.Topic, partition})
				}
			}
		}
		members = append(members, places)
	}
	return fields{"state": strings.ToUpper(one.State), "members": members}, one.Err
}

func deleteGroup(ctx context.Context, asked question) (any, error) {
	_, err := admin.DeleteGroup(ctx, *asked.Group)
	return nil, err
}

func deleteOffset(ctx context.Context, asked question) (any, error) {
	wanted := kadm.TopicsSet{}
	wanted.Add(asked.Topic, asked.Partition)
	done, err := admin.DeleteOffsets(ctx, *asked.Group, wanted)
	if err != nil {
		return nil, err
	}
	return nil, done.Error()
}
