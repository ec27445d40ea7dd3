package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var isolations = map[string]kgo.IsolationLevel{
	"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted(),
}

// read BOOTSTRAP ISOLATION TOPIC PARTITION UNTIL: offset, key, value and header of each record, four words each
func read(ctx context.Context, asked []string) ([]string, error) {
	partition := int32(number(asked[3]))
	client, err := kgo.NewClient(
		servers(asked[0]), kgo.FetchIsolationLevel(isolations[asked[1]]), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked[2]: {partition: kgo.NewOffset().At(0)}}),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []string
	for {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("no record %s, only %v: %w", asked[4], found, err)
		}
		for _, record := range fetched.Records() {
			header := ""
			for _, one := range record.Headers {
				header = string(one.Value)
			}
			found = append(found, words(record.Offset, string(record.Key), string(record.Value), header)...)
			if string(record.Value) == asked[4] {
				return found, nil
			}
		}
	}
}

// servers is what a client asks first: HOST:PORT, or several of them with commas.
func servers(bootstrap string) kgo.Opt {
	return kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
}

func withAdmin(bootstrap string, do func(*kadm.Client) ([]string, error)) ([]string, error) {
	client, err := kgo.NewClient(servers(bootstrap))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return do(kadm.NewClient(client))
}

// end BOOTSTRAP ISOLATION TOPIC PARTITION
func endOffset(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		list := admin.ListEndOffsets
		if asked[1] == "read_committed" {
			list = admin.ListCommittedOffsets
		}
		listed, err := list(ctx, asked[2])
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(asked[2], int32(number(asked[3])))
		return words(found.Offset), found.Err
	})
}

// committed BOOTSTRAP GROUP TOPIC PARTITION: the offset, or -1
func committedOffset(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		fetched, err := admin.FetchOffsets(ctx, asked[1])
		if err != nil {
			return nil, err
		}
		found, ok := fetched.Lookup(asked[2], int32(number(asked[3])))
		if !ok {
			return words(-1), nil
		}
		return words(found.At), found.Err
	})
}
