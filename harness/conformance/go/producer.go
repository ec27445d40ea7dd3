package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type producer struct {
	client          *kgo.Client
	transactionalID string
	produced        bool
	sync.Mutex
	failed error
}

var producers sync.Map // the handle: *producer

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

// producer HANDLE BOOTSTRAP TRANSACTIONAL-ID CODEC ACKS
func openProducer(_ context.Context, words []string) ([]string, error) {
	options := []kgo.Opt{
		servers(words[1]), kgo.ProducerBatchCompression(codecs[words[3]]), kgo.RequiredAcks(acks[words[4]]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond),
		kgo.RetryTimeout(patience), kgo.RecordDeliveryTimeout(patience),
	}
	if words[2] != "" {
		options = append(options, kgo.TransactionalID(words[2]))
	}
	if words[4] != "all" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		producers.Store(words[0], &producer{client: client, transactionalID: words[2]})
	}
	return nil, err
}

func theProducer(words []string) *producer {
	found, _ := producers.Load(words[0])
	return found.(*producer)
}

func initProducer(ctx context.Context, words []string) ([]string, error) {
	_, _, err := theProducer(words).client.ProducerID(ctx)
	return nil, err
}

func begin(_ context.Context, words []string) ([]string, error) {
	found := theProducer(words)
	found.produced = false
	return nil, found.client.BeginTransaction()
}

// send HANDLE TOPIC PARTITION KEY VALUE HEADER
func send(ctx context.Context, words []string) ([]string, error) {
	found := theProducer(words)
	found.produced = true
	record := &kgo.Record{
		Topic: words[1], Partition: int32(number(words[2])), Key: []byte(words[3]), Value: []byte(words[4]),
		Headers: []kgo.RecordHeader{{Key: "header", Value: []byte(words[5])}},
	}
	found.client.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
		found.Lock()
		defer found.Unlock()
		if err != nil && found.failed == nil {
			found.failed = err
		}
	})
	return nil, nil
}

func (found *producer) flush(ctx context.Context) error {
	if err := found.client.Flush(ctx); err != nil {
		return err
	}
	found.Lock()
	defer found.Unlock()
	err := found.failed
	found.failed = nil
	return err
}

func flush(ctx context.Context, words []string) ([]string, error) {
	return nil, theProducer(words).flush(ctx)
}

// offsets HANDLE GROUP TOPIC PARTITION OFFSET
//
// The client itself commits only what a member of a group has read; for a group without members the two requests are
// made here.
func sendOffsets(ctx context.Context, words []string) ([]string, error) {
	found := theProducer(words)
	id, epoch, err := found.client.ProducerID(ctx)
	if err != nil {
		return nil, err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = found.transactionalID, id, epoch, words[1]
	added, err := retried(ctx, func() (*kmsg.AddOffsetsToTxnResponse, error) {
		answer, err := add.RequestWith(ctx, found.client)
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		return answer, err
	})
	if err != nil || added == nil {
		return nil, err
	}
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Partition, partition.Offset = int32(number(words[3])), number(words[4])
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = words[2], append(topic.Partitions, partition)
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group, request.ProducerID, request.ProducerEpoch = found.transactionalID, words[1], id, epoch
	request.Topics = append(request.Topics, topic)
	_, err = retried(ctx, func() (*kmsg.TxnOffsetCommitResponse, error) {
		answer, err := request.RequestWith(ctx, found.client)
		if err == nil {
			err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
		}
		return answer, err
	})
	return nil, err
}

// Ask again while the answer is one that passes.
func retried[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if err == nil || !kerr.IsRetriable(err) || ctx.Err() != nil {
			return answer, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func commit(ctx context.Context, words []string) ([]string, error) {
	found := theProducer(words)
	if err := found.flush(ctx); err != nil {
		return nil, err
	}
	return nil, found.end(ctx, true)
}

func abort(ctx context.Context, words []string) ([]string, error) {
	return nil, theProducer(words).end(ctx, false)
}

// The client does not end a transaction in which it has produced nothing.
func (found *producer) end(ctx context.Context, commit bool) error {
	if found.produced {
		return found.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	}
	id, epoch, err := found.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrEndTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = found.transactionalID, id, epoch, commit
	_, err = retried(ctx, func() (*kmsg.EndTxnResponse, error) {
		answer, err := request.RequestWith(ctx, found.client)
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		return answer, err
	})
	return err
}

func closeProducer(_ context.Context, words []string) ([]string, error) {
	theProducer(words).client.Close()
	producers.Delete(words[0])
	return nil, nil
}
