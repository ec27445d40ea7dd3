from __future__ import annotations

from oncelog.cluster.controller.loading import feature_znode, is_compatible
from oncelog.cluster.controller.values import RegisteredBroker
from oncelog.cluster.zookeeper.znodes import FeatureStatus, FeatureZnode


def test_new_controller_enables_features_and_keeps_their_levels():
    """KafkaController.enableFeatureVersioning."""
    assert feature_znode(None) == FeatureZnode({})
    assert feature_znode(FeatureZnode({"a": 3})) == FeatureZnode({"a": 3})
    assert feature_znode(FeatureZnode({"a": 3}, FeatureStatus.DISABLED)) == FeatureZnode({})
    assert feature_znode(FeatureZnode({"a": 3}, version=1)) == FeatureZnode({"a": 3}, version=2)


def test_broker_that_does_not_support_the_level_of_a_feature_is_left_out():
    broker = RegisteredBroker(1, 1, (), features=(("a", 1, 3),))
    assert is_compatible(broker, {})
    assert is_compatible(broker, {"a": 3})
    assert not is_compatible(broker, {"a": 4})
    assert not is_compatible(broker, {"b": 1})
