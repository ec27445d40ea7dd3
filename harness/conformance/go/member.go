package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A member of a group. It rebalances only between two polls, so that what was polled can be committed.
type member struct {
	client *kgo.Client
	sync.Mutex
	partitions map[int32]bool
	rebalances int
}

var members sync.Map // the handle: *member

// subscribe HANDLE BOOTSTRAP GROUP TOPIC RESET INSTANCE HEARTBEAT-MS SESSION-MS
func subscribe(_ context.Context, asked []string) ([]string, error) {
	found := &member{partitions: map[int32]bool{}}
	reset := kgo.NewOffset().AtStart()
	if asked[4] == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			found.Lock()
			defer found.Unlock()
			for _, partition := range topics[asked[3]] {
				if has {
					found.partitions[partition] = true
				} else {
					delete(found.partitions, partition)
				}
			}
			if has {
				found.rebalances++
			}
		}
	}
	options := []kgo.Opt{
		servers(asked[1]), kgo.ConsumerGroup(asked[2]), kgo.ConsumeTopics(asked[3]), kgo.ConsumeResetOffset(reset),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(number(asked[6])) * time.Millisecond),
		kgo.SessionTimeout(time.Duration(number(asked[7])) * time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	}
	if asked[5] != "" {
		// Without cooperation every rebalance is an assignment, even of what the member has already.
		options = append(options, kgo.InstanceID(asked[5]), kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		found.client = client
		members.Store(asked[0], found)
	}
	return nil, err
}

func theMember(words []string) *member {
	found, _ := members.Load(words[0])
	return found.(*member)
}

// poll HANDLE: partition, offset and value of each record, three words each
func poll(ctx context.Context, asked []string) ([]string, error) {
	found := theMember(asked)
	found.client.AllowRebalance()
	briefly, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	fetched := found.client.PollRecords(briefly, 500)
	if err := fetched.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	var answer []string
	fetched.EachRecord(func(record *kgo.Record) {
		answer = append(answer, words(record.Partition, record.Offset, string(record.Value))...)
	})
	return answer, nil
}

// commit-polled HANDLE: whether it is
func commitPolled(ctx context.Context, asked []string) ([]string, error) {
	return words(theMember(asked).client.CommitUncommittedOffsets(ctx) == nil), nil
}

// assigned HANDLE: how often it was assigned anything, and the partitions
func assigned(_ context.Context, asked []string) ([]string, error) {
	found := theMember(asked)
	found.Lock()
	defer found.Unlock()
	answer := words(found.rebalances)
	for partition := range found.partitions {
		answer = append(answer, words(partition)...)
	}
	return answer, nil
}

func leave(_ context.Context, asked []string) ([]string, error) {
	theMember(asked).client.CloseAllowingRebalance()
	members.Delete(asked[0])
	return nil, nil
}
