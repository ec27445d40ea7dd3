package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
)

// create BOOTSTRAP TOPIC PARTITIONS SETTING VALUE
func createTopic(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		_, err := admin.CreateTopic(ctx, int32(number(asked[2])), 1, map[string]*string{asked[3]: &asked[4]}, asked[1])
		return nil, err
	})
}

// topics BOOTSTRAP
func listTopics(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListTopics(ctx)
		return listed.Names(), err
	})
}

// partitions BOOTSTRAP TOPIC: how many
func countPartitions(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListTopics(ctx, asked[1])
		return words(len(listed[asked[1]].Partitions)), err
	})
}

// grow BOOTSTRAP TOPIC PARTITIONS
func growTopic(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		grown, err := admin.UpdatePartitions(ctx, int(number(asked[2])), asked[1])
		if err != nil {
			return nil, err
		}
		return nil, grown.Error()
	})
}

// delete BOOTSTRAP TOPIC
func deleteTopic(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		deleted, err := admin.DeleteTopics(ctx, asked[1])
		if err != nil {
			return nil, err
		}
		return nil, deleted.Error()
	})
}

// setting BOOTSTRAP TOPIC SETTING: its value
func describeSetting(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		described, err := admin.DescribeTopicConfigs(ctx, asked[1])
		if err != nil {
			return nil, err
		}
		found, err := described.On(asked[1], nil)
		for _, setting := range found.Configs {
			if setting.Key == asked[2] {
				return words(setting.MaybeValue()), err
			}
		}
		return nil, err
	})
}

// set BOOTSTRAP TOPIC SETTING VALUE
func alterSetting(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: asked[2], Value: &asked[3]}
		altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, asked[1])
		if err != nil {
			return nil, err
		}
		_, err = altered.On(asked[1], func(one *kadm.AlterConfigsResponse) error { return one.Err })
		return nil, err
	})
}

// delete-records BOOTSTRAP TOPIC PARTITION BEFORE: where the partition begins now
func deleteRecords(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		partition := int32(number(asked[2]))
		var before kadm.Offsets
		before.Add(kadm.Offset{Topic: asked[1], Partition: partition, At: number(asked[3])})
		deleted, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return nil, err
		}
		found, _ := deleted.Lookup(asked[1], partition)
		return words(found.LowWatermark), found.Err
	})
}

// groups BOOTSTRAP
func listGroups(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListGroups(ctx)
		return listed.Groups(), err
	})
}

// delete-group BOOTSTRAP GROUP
func deleteGroup(ctx context.Context, asked []string) ([]string, error) {
	return withAdmin(asked[0], func(admin *kadm.Client) ([]string, error) {
		_, err := admin.DeleteGroup(ctx, asked[1])
		return nil, err
	})
}
