"""What a member of a cluster does in another way than a broker that is alone: the metadata is ZooKeeper's."""
